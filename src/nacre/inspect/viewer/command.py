"""`nacre view`: open runs, record them if necessary, and serve the page. Needs starlette and uvicorn."""

import asyncio
import socket
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from rich.console import Console
from starlette.types import ASGIApp

from nacre._util.progress import bars
from nacre.inspect.recording.recording import Recording
from nacre.inspect.recording.run import FOLDER, record_run
from nacre.inspect.recording.writer import STORE
from nacre.inspect.viewer.app import make_app
from nacre.inspect.viewer.report import write_report
from nacre.inspect.viewer.timeouts import TimeoutHttp
from nacre.train.run import MODEL


@dataclass(frozen=True)
class ViewOptions:
    """What to show, and where."""

    runs: Sequence[Path]  # one run or recording, or two to compare
    samples: int = 8  # sequences or drives to record, where a run has no recording yet
    again: bool = False  # whether runs are recorded anew
    host: str = "127.0.0.1"  # address to listen on; the default can be reached from this machine only
    port: int = 8765  # 0 takes a free one
    data_dir: Path | None = None
    export: Path | None = None  # a file to write the page to, instead of serving it
    sample: int = 0  # sample that the file shows


def view(options: ViewOptions) -> None:
    """Serve the page until Ctrl-C, or write it to a file.

    Raises:
        FileNotFoundError: If there is no such run.
        ValueError: If a run has no NAC layer.
        OSError: If the port is in use, or the host is no address of this machine.
    """
    if not 1 <= len(options.runs) <= 2:
        raise ValueError(f"runs must be one run, or two to compare, got {len(options.runs)}")
    console = Console(stderr=True)
    recordings = [
        open_recording(run, options.samples, options.data_dir, console, again=options.again)
        for run in options.runs
    ]
    if options.export is not None:
        write_report(recordings, options.export, options.sample)
        console.print(f"wrote {options.export}")
        return
    app = make_app(recordings, (options.host,))
    serve(app, options.host, options.port, lambda address: console.print(f"open {address}"))


def open_recording(
    run: Path, samples: int, data_dir: Path | None, console: Console, *, again: bool = False
) -> Recording:
    """The recording of a run, made first if there is none; or a recording itself."""
    if (run / STORE).is_dir():
        return Recording(run)
    model, made = run / MODEL / "model.json", run / FOLDER / STORE
    if made.is_dir() and not again and (not model.exists() or made.stat().st_mtime >= model.stat().st_mtime):
        return Recording(run / FOLDER)
    with bars(console) as progress:
        bar = progress.add_task(f"recording {run}", total=None, loss="")

        def tell(done: int, of: int) -> None:
            progress.update(bar, completed=done, total=of)

        return record_run(run, samples, data_dir=data_dir, progress=tell)


def serve(app: ASGIApp, host: str, port: int, ready: Callable[[str], None]) -> None:
    """Serve until Ctrl-C; `ready` is called with the address of the page once it can be opened."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, asyncio sets TCP_NODELAY: small answers are sent at once.
    with closing(socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, port))
            listening.listen(256)
        except OSError as error:
            raise OSError(f"cannot listen on {host}, port {port} ({error.strerror}); try --port 0") from None
        server = uvicorn.Server(
            uvicorn.Config(
                app,
                http=TimeoutHttp,
                log_level="error",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                lifespan="off",
                timeout_keep_alive=10,
                timeout_graceful_shutdown=2,
                h11_max_incomplete_event_size=16 * 1024,
            )
        )
        shown = f"[{host}]" if ":" in host else host
        ready(f"http://{shown}:{listening.getsockname()[1]}/")
        with suppress(KeyboardInterrupt):
            asyncio.run(server.serve(sockets=[listening]))
