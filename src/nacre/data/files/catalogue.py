"""Which files each data set consists of: where they come from, and the checksums of their contents."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from nacre._util.checks import choice
from nacre.data.dataset import Dataset


@dataclass(frozen=True)
class SourceFile:
    """One file of a data set."""

    name: str  # of the plain file; it may also be there as `<name>.gz`, or in the zip that `url` names
    folder: str  # of the data set, below the folders that are searched
    checksum: str | None  # "sha256:..." or "md5:..." of the decompressed bytes; None where nacre knows none
    url: str | None = None  # where it is fetched from; None where it is not fetched

    @property
    def download(self) -> str:
        """Name under which a fetched file is kept, compressed as it came."""
        return self.url.rsplit("/", 1)[-1] if self.url else self.name

    @property
    def names(self) -> tuple[str, ...]:
        """Names under which the file may be found, the plain one first."""
        return tuple(dict.fromkeys((self.name, f"{self.name}.gz", self.download)))


@dataclass(frozen=True)
class Form:
    """One form in which a data set is published."""

    text: str  # what it is, in words; part of every result
    files: tuple[SourceFile, ...]  # all that it needs

    @property
    def fetchable(self) -> bool:
        """Whether every file has an address."""
        return all(file.url for file in self.files)


@dataclass(frozen=True)
class CatalogEntry:
    """One data set."""

    what: str  # in a few words
    loader: str  # its reader, as "module:function" below nacre.data.sets
    forms: tuple[Form, ...] = ()  # the best first; none if it is generated
    recorded: bool = False  # whether it reads files of your own, which nacre neither fetches nor generates


_MNIST = tuple(
    SourceFile(name, "mnist", f"sha256:{sha256}", f"https://ossci-datasets.s3.amazonaws.com/mnist/{name}.gz")
    for name, sha256 in {
        "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    }.items()
)
_FIVE_PERSONS = SourceFile(
    "ConfLongDemo_JSI.txt",
    "person_activity",
    "md5:280a677ae0d673ec9a50ada480d8a529",  # public loaders record no other
    "https://archive.ics.uci.edu/static/public/196/localization+data+for+person+activity.zip",
)
_TWO_PERSONS = tuple(
    SourceFile(name, "person_activity", f"sha256:{sha256}")
    for name, sha256 in {
        "person_A.csv": "859b1a09c452c3bdfe533642438af0f2ac45e7d616aa6b7172d8e4bcc75f6343",
        "person_B.csv": "f4ebb20b39912887afcd2c86dba064bd4b6587f532f223d59eeed72ee2112da5",
    }.items()
)
_ETTM1 = SourceFile(
    "ETTm1.csv",
    "ettm1",
    "sha256:6ce1759b1a18e3328421d5d75fadcb316c449fcd7cec32820c8dafda71986c9e",
    "https://raw.githubusercontent.com/zhouhaoyi/ETDataset/main/ETT-small/ETTm1.csv",
)
_JENA = SourceFile(
    "jena_climate_2009_2016.csv",
    "jena",
    None,  # no published checksum is known
    "https://storage.googleapis.com/tensorflow/tf-keras-datasets/jena_climate_2009_2016.csv.zip",
)
_JENA_2020 = SourceFile(
    "weather.csv", "weather_jena2020", "sha256:34ee981d07313e51da2a50bb600072c8ae4a69cb4b0651f4cb93a069d7a2ba63"
)
_PHYSIONET_2012 = tuple(
    SourceFile(name, "physionet2012", None, f"https://physionet.org/files/challenge-2012/1.0.0/{file}")
    for part in "abc"
    for name, file in (
        (f"set-{part}.tar", f"set-{part}.tar.gz"),
        (f"Outcomes-{part}.txt", f"Outcomes-{part}.txt"),
    )
)

CATALOG: dict[str, CatalogEntry] = {
    "event-mnist": CatalogEntry(
        "handwritten digits as runs of black and white pixels",
        "event_mnist:load_event_mnist",
        (Form("official, 60,000 + 10,000 images", _MNIST),),
    ),
    "person-activity": CatalogEntry(
        "what people do, from four tags they wear",
        "person_activity:load_person_activity",
        (
            Form("official, five persons", (_FIVE_PERSONS,)),
            Form("stand-in: persons A and B only, of five; times rounded to 0.1 ms", _TWO_PERSONS),
        ),
    ),
    "ettm1": CatalogEntry(
        "oil temperature of a transformer, every 15 minutes for two years",
        "ettm1:load_ettm1",
        (Form("official, complete", (_ETTM1,)),),
    ),
    "jena": CatalogEntry(
        "weather of Jena, every 10 minutes",
        "jena:load_jena",
        (
            Form("official 2009-2016", (_JENA,)),
            Form("stand-in: the year 2020 of the same station", (_JENA_2020,)),
        ),
    ),
    "physionet2012": CatalogEntry(
        "mortality in hospital, from 48 hours in intensive care",
        "physionet2012:load_physionet2012",
        (Form("official, sets a, b and c", _PHYSIONET_2012),),
    ),
    "carracing": CatalogEntry(
        "recorded drives in CarRacing, see `nacre drive collect`", "carracing:load_carracing", recorded=True
    ),
    "udacity": CatalogEntry("a recorded drive in Udacity's simulator", "udacity:load_udacity", recorded=True),
    "bearings": CatalogEntry(
        "features of bearings that run to failure, see `nacre data features`",
        "bearings:load_bearings",
        recorded=True,
    ),
    "spiral": CatalogEntry("generated spirals, seen at irregular times", "spirals:load_spirals"),
}

DERIVED = {"ettm1-gaps": "gaps:load_ettm1_gaps", "jena-gaps": "gaps:load_jena_gaps"}
"""Data sets that are made from the files of another one, and their readers."""


def entry(name: str) -> CatalogEntry:
    """The catalogue's entry of a data set.

    Example:
        >>> entry("jena").forms[0].files[0].name
        'jena_climate_2009_2016.csv'
    """
    choice("data set", name, CATALOG)
    return CATALOG[name]


def loader_of(name: str) -> Callable[..., Dataset]:
    """The reader of a data set; those that read files take `data_dir`.

    One that reads no files needs no entry: `my-waves` is made by `load_my_waves` of data/sets/my_waves.py.
    """
    if name in CATALOG or name in DERIVED:
        module, function = (DERIVED[name] if name in DERIVED else entry(name).loader).split(":")
        return getattr(import_module(f"nacre.data.sets.{module}"), function)
    module = str(name).replace("-", "_")
    if module.isidentifier() and find_spec(f"nacre.data.sets.{module}") is not None:
        reader = getattr(import_module(f"nacre.data.sets.{module}"), f"load_{module}", None)
        if reader is not None:
            return reader
    choice("data set", name, (*CATALOG, *DERIVED))
    raise AssertionError


def load_dataset(name: str, data_dir: Path | None = None) -> Dataset:
    """Load a data set by name with the defaults of its reader; one that reads files looks in `data_dir` first."""
    loader = loader_of(name)
    return loader(data_dir) if entry(name).forms or entry(name).recorded else loader()
