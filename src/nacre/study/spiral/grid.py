"""What the spiral study varies: heads, sparsity, and keys by length, one at a time around a default."""

from dataclasses import dataclass, replace
from enum import StrEnum

from nacre.tasks.recipe import Profile

WIDTH = 64  # of the layer; with 32 heads each head has 2 numbers


class Section(StrEnum):
    """What is varied."""

    HEADS = "heads"
    SPARSITY = "sparsity"
    KEYS = "keys"
    """Keys of a query, at many lengths."""


@dataclass(frozen=True)
class Setting:
    """What defines a network and what it sees.

    Attributes:
        heads: Heads of the layer.
        sparsity: Nominal share of synapses left out.
        top_k: Keys a query attends to.
        length: Points of a spiral; a third of them are seen.
    """

    heads: int = 4
    sparsity: float = 0.5
    top_k: int = 8
    length: int = 150

    @property
    def slug(self) -> str:
        """The setting as part of a file's name."""
        return f"heads{self.heads}-sparsity{self.sparsity:g}-keys{self.top_k}-length{self.length}"

    def __str__(self) -> str:
        """For people to read."""
        return f"{self.heads} heads, sparsity {self.sparsity:g}, K={self.top_k}, {self.length:,} points"


DEFAULT = Setting()


def sections_of(setting: Setting) -> tuple[Section, ...]:
    """Sections whose tables show a setting: two for the default, none for one that differs in too much.

    Example:
        >>> [str(section) for section in sections_of(Setting(heads=8))]
        ['heads']
        >>> [str(section) for section in sections_of(DEFAULT)]
        ['heads', 'sparsity']
    """
    found = []
    if replace(setting, heads=DEFAULT.heads) == DEFAULT:
        found.append(Section.HEADS)
    if replace(setting, sparsity=DEFAULT.sparsity) == DEFAULT:
        found.append(Section.SPARSITY)
    same = (setting.heads, setting.sparsity) == (DEFAULT.heads, DEFAULT.sparsity)
    if same and setting.length != DEFAULT.length:
        found.append(Section.KEYS)
    return tuple(found)


@dataclass(frozen=True)
class Grid:
    """The values that a profile runs, and its budget.

    Attributes:
        heads: Numbers of heads.
        sparsities: Sparsities.
        top_ks: Numbers of keys, each at all lengths.
        lengths: Lengths, other than the default's.
        seeds: How many seeds, from 0 on.
        steps: Training steps of every run.
    """

    heads: tuple[int, ...]
    sparsities: tuple[float, ...]
    top_ks: tuple[int, ...]
    lengths: tuple[int, ...]
    seeds: int
    steps: int

    def settings(self, section: Section) -> list[Setting]:
        """All settings of a section."""
        if section == Section.HEADS:
            return [Setting(heads=heads) for heads in self.heads]
        if section == Section.SPARSITY:
            return [Setting(sparsity=sparsity) for sparsity in self.sparsities]
        return [Setting(top_k=top_k, length=length) for length in self.lengths for top_k in self.top_ks]


# Quick takes minutes. Paper has the paper's values and seeds: days of one core, most for the longest spirals.
GRIDS = {
    Profile.QUICK: Grid(
        heads=(1, 2, 4, 8, 16, 32),
        sparsities=(0.1, 0.3, 0.5, 0.7, 0.9),
        top_ks=(2, 8, 32),
        lengths=(100, 500, 2_000),
        seeds=2,
        steps=250,
    ),
    Profile.PAPER: Grid(
        heads=(1, 2, 4, 8, 16, 32),
        sparsities=(0.1, 0.3, 0.5, 0.7, 0.8, 0.9),
        top_ks=(2, 4, 8, 16, 32),
        lengths=(100, 500, 1_000, 5_000, 10_000, 20_000, 30_000, 50_000),
        seeds=5,
        steps=600,
    ),
}
