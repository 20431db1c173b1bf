"""Data sets, each in a file of its own, and your own data."""

from nacre.data.dataset import Batch as Batch
from nacre.data.dataset import Dataset as Dataset
from nacre.data.dataset import Kind as Kind
from nacre.data.missing import Missing as Missing
from nacre.data.sets.spirals import load_spirals as load_spirals
from nacre.data.splits import Split as Split
from nacre.data.splits import SplitBy as SplitBy
from nacre.data.splits import make_splits as make_splits
from nacre.data.tables.arrays import from_arrays as from_arrays
from nacre.data.tables.csv_dataset import from_csv as from_csv
from nacre.data.tables.csv_dataset import from_frame as from_frame
