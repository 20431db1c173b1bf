"""Which files each data set is made of: where they come from, and the checksums of what they hold."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from nacre._util.checks import choice
from nacre.data.dataset import Dataset


@dataclass(frozen=True)
class SourceFile:
    """One file of a data set.

    Attributes:
        name: Name of the plain file. It may also lie about as `<name>.gz`, or in the zip that `url` names.
        folder: Folder of the data set, below the folders that are searched.
        checksum: "sha256:..." or "md5:..." of the plain, decompressed bytes; None where nacre knows none.
        url: Where it is fetched from; None where it is not fetched.
    """

    name: str
    folder: str
    checksum: str | None
    url: str | None = None

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
    """One form in which a data set is about.

    Attributes:
        text: What it is, in words; stands in every result.
        files: All files it needs.
    """

    text: str
    files: tuple[SourceFile, ...]

    @property
    def fetchable(self) -> bool:
        """Whether every file has an address."""
        return all(file.url for file in self.files)


@dataclass(frozen=True)
class Entry:
    """One data set.

    Attributes:
        what: What it is, in a few words.
        loader: Its reader, as "module:function".
        forms: Forms it may have, the best first; none if it is generated.
        recorded: Whether files of your own are read, which nacre neither fetches nor makes when they are missing.
    """

    what: str
    loader: str
    forms: tuple[Form, ...] = ()
    recorded: bool = False


_ETT = "https://raw.githubusercontent.com/zhouhaoyi/ETDataset/main/ETT-small/"
_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist/"
_JENA = "https://storage.googleapis.com/tensorflow/tf-keras-datasets/"
_UCI = "https://archive.ics.uci.edu/static/public/196/"


def _mnist(stem: str, sha256: str) -> SourceFile:
    name = f"{stem}-ubyte"
    return SourceFile(name, "mnist", f"sha256:{sha256}", f"{_MNIST}{name}.gz")


def _person(name: str, sha256: str) -> SourceFile:
    return SourceFile(name, "person_activity", f"sha256:{sha256}")


CATALOG: dict[str, Entry] = {
    "event-mnist": Entry(
        what="handwritten digits as runs of black and white pixels",
        loader="nacre.data.sets.event_mnist:load_event_mnist",
        forms=(
            Form(
                "official, 60,000 + 10,000 images",
                (
                    _mnist(
                        "train-images-idx3", "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"
                    ),
                    _mnist(
                        "train-labels-idx1", "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"
                    ),
                    _mnist("t10k-images-idx3", "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"),
                    _mnist("t10k-labels-idx1", "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"),
                ),
            ),
        ),
    ),
    "person-activity": Entry(
        what="what people do, from four tags they wear",
        loader="nacre.data.sets.person_activity:load_person_activity",
        forms=(
            Form(
                "official, five persons",
                (
                    SourceFile(
                        "ConfLongDemo_JSI.txt",
                        "person_activity",
                        "md5:280a677ae0d673ec9a50ada480d8a529",  # public loaders record no other
                        f"{_UCI}localization+data+for+person+activity.zip",
                    ),
                ),
            ),
            Form(
                "stand-in: persons A and B only, of five; times rounded to 0.1 ms",
                (
                    _person("person_A.csv", "859b1a09c452c3bdfe533642438af0f2ac45e7d616aa6b7172d8e4bcc75f6343"),
                    _person("person_B.csv", "f4ebb20b39912887afcd2c86dba064bd4b6587f532f223d59eeed72ee2112da5"),
                ),
            ),
        ),
    ),
    "ettm1": Entry(
        what="oil temperature of a transformer, every 15 minutes for two years",
        loader="nacre.data.sets.ettm1:load_ettm1",
        forms=(
            Form(
                "official, complete",
                (
                    SourceFile(
                        "ETTm1.csv",
                        "ettm1",
                        "sha256:6ce1759b1a18e3328421d5d75fadcb316c449fcd7cec32820c8dafda71986c9e",
                        f"{_ETT}ETTm1.csv",
                    ),
                ),
            ),
        ),
    ),
    "jena": Entry(
        what="weather of Jena, every 10 minutes",
        loader="nacre.data.sets.jena:load_jena",
        forms=(
            Form(
                "official 2009-2016",
                (
                    SourceFile(
                        "jena_climate_2009_2016.csv",
                        "jena",
                        None,  # nobody publishes one that we know of
                        f"{_JENA}jena_climate_2009_2016.csv.zip",
                    ),
                ),
            ),
            Form(
                "stand-in: the year 2020 of the same station",
                (
                    SourceFile(
                        "weather.csv",
                        "weather_jena2020",
                        "sha256:34ee981d07313e51da2a50bb600072c8ae4a69cb4b0651f4cb93a069d7a2ba63",
                    ),
                ),
            ),
        ),
    ),
    "carracing": Entry(
        what="recorded drives in CarRacing, see `nacre drive collect`",
        loader="nacre.data.sets.carracing:load_carracing",
        recorded=True,
    ),
    "udacity": Entry(
        what="a recorded drive in Udacity's simulator",
        loader="nacre.data.sets.udacity:load_udacity",
        recorded=True,
    ),
    "bearings": Entry(
        what="features of bearings that run to failure, see `nacre data features`",
        loader="nacre.data.sets.bearings:load_bearings",
        recorded=True,
    ),
    "spiral": Entry(
        what="generated spirals, seen at irregular times", loader="nacre.data.sets.spirals:load_spirals"
    ),
}


def entry(name: str) -> Entry:
    """The catalogue's entry of a data set.

    Example:
        >>> entry("jena").forms[0].files[0].name
        'jena_climate_2009_2016.csv'
    """
    choice("data set", name, CATALOG)
    return CATALOG[name]


def loader_of(name: str) -> Callable[..., Dataset]:
    """The reader of a data set; those that read files take `data_dir`."""
    module, function = entry(name).loader.split(":")
    return getattr(import_module(module), function)


def load_dataset(name: str, data_dir: Path | None = None) -> Dataset:
    """Load a data set by name, with the defaults of its reader.

    Args:
        name: One of the catalogue.
        data_dir: Where to look first; generated data sets have no use for it.
    """
    loader = loader_of(name)
    return loader(data_dir) if entry(name).forms or entry(name).recorded else loader()
