"""The commands of `nacre data`: names and the functions they call, no logic. Needs typer."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option, Typer

from nacre.cli.options import DataDir, Jobs, Rate, SkipBad

data = Typer(help="List, fetch and check data sets.", no_args_is_help=True)
_Names = Annotated[list[str] | None, Argument(help="Data sets.", show_default="all")]


@data.command("list")
def data_list(data_dir: DataDir = None) -> None:
    """List the data sets, and which of them are there."""
    from nacre.data.files.listing import print_data

    print_data(data_dir)


@data.command("get")
def data_get(names: _Names = None, data_dir: DataDir = None) -> None:
    """Fetch data sets from their official sources, and check them."""
    from nacre.data.files.listing import get_data

    get_data(names or [], data_dir)


@data.command("check")
def data_check(
    names: Annotated[
        list[str] | None, Argument(help="Data sets, or recipes of your own (.toml).", show_default="all data sets")
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Check data sets, or a recipe and its table: say what is in them, and all that is wrong."""
    from nacre.tasks.check import check

    check(names or [], data_dir)


@data.command("features")
def data_features(
    places: Annotated[
        list[Path],
        Argument(help="Folders with recordings of bearings (PRONOSTIA, XJTU-SY), or MAT files (HUST)."),
    ],
    out: Annotated[Path, Option(help="Where tables go.")] = Path("bearings-features"),
    rate: Rate = None,
    skip_bad: SkipBad = False,
    jobs: Jobs = None,
) -> None:
    """Describe recordings of bearings by features, window by window. Start it again to resume."""
    from nacre.bearings.extract import Extraction, extract

    extract(Extraction(places, out, rate, skip_bad, jobs))
