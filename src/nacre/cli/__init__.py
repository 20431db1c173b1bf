"""Entry point of the `nacre` command."""

import sys
from typing import NoReturn

from nacre._util.extras import how_to_install

_DRIVING = ("gymnasium", "Box2D", "pygame", "captum", "imageio", "imageio_ffmpeg", "PIL", "websockets")
_VIEWING = ("zarr", "starlette", "uvicorn")
_EXTRAS = {"optuna": "train,tune", "ray": "train,scale", "pyarrow": "train,bearings"}  # others: train
_EXTRAS |= dict.fromkeys(("onnx", "onnxscript", "onnxruntime"), "train,export")
_EXTRAS |= dict.fromkeys(_DRIVING, "train,drive") | dict.fromkeys(_VIEWING, "train,view")


def main() -> None:
    """Run the command line. Bad input exits with 2, Ctrl-C with 130."""
    try:
        from nacre.cli.app import app  # here, so that a missing package gets a message and no traceback

        app()
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        _fail(f"the package {package!r} is not installed; {how_to_install(_EXTRAS.get(package, 'train'))}")
    except (ValueError, OSError) as error:
        _fail(str(error))
    except KeyboardInterrupt:
        sys.exit(130)


def _fail(message: str) -> NoReturn:
    sys.stderr.write(f"nacre: {message}\n")
    sys.exit(2)
