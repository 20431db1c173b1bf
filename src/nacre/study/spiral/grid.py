"""What the spiral study varies: heads, sparsity, and keys by length, one at a time around a default."""

from dataclasses import dataclass, replace
from enum import StrEnum

from nacre.study.profile import StudyProfile

WIDTH = 64  # of the layer; with 32 heads each head has 2 numbers


class Section(StrEnum):
    """What is varied."""

    HEADS = "heads"
    SPARSITY = "sparsity"
    KEYS = "keys"  # of a query, at many lengths


@dataclass(frozen=True)
class SpiralSetting:
    """What defines a network and what it sees."""

    heads: int = 4
    sparsity: float = 0.5  # nominal share of synapses left out
    top_k: int = 8  # keys a query attends to
    length: int = 150  # points of a spiral; a third of them are seen

    @property
    def slug(self) -> str:
        """The setting as part of a file name."""
        return f"heads{self.heads}-sparsity{self.sparsity:g}-keys{self.top_k}-length{self.length}"

    def __str__(self) -> str:
        """For people to read."""
        return f"{self.heads} heads, sparsity {self.sparsity:g}, K={self.top_k}, {self.length:,} points"


DEFAULT = SpiralSetting()


def sections_of(setting: SpiralSetting) -> tuple[Section, ...]:
    """Sections whose tables show a setting: two for the default, none for one that differs in too much.

    Example:
        >>> [str(section) for section in sections_of(SpiralSetting(heads=8))]
        ['heads']
        >>> [str(section) for section in sections_of(DEFAULT)]
        ['heads', 'sparsity']
    """
    same = (setting.heads, setting.sparsity) == (DEFAULT.heads, DEFAULT.sparsity)
    shown = {
        Section.HEADS: replace(setting, heads=DEFAULT.heads) == DEFAULT,
        Section.SPARSITY: replace(setting, sparsity=DEFAULT.sparsity) == DEFAULT,
        Section.KEYS: same and setting.length != DEFAULT.length,
    }
    return tuple(section for section in Section if shown[section])


@dataclass(frozen=True)
class SpiralGrid:
    """The values that a profile runs, and its budget."""

    heads: tuple[int, ...]
    sparsities: tuple[float, ...]
    top_ks: tuple[int, ...]  # each at all lengths
    lengths: tuple[int, ...]  # other than the default's
    seeds: int  # how many, from 0 on
    steps: int  # of training

    def settings(self, section: Section) -> list[SpiralSetting]:
        """All settings of a section."""
        if section == Section.HEADS:
            return [SpiralSetting(heads=heads) for heads in self.heads]
        if section == Section.SPARSITY:
            return [SpiralSetting(sparsity=sparsity) for sparsity in self.sparsities]
        return [SpiralSetting(top_k=top_k, length=length) for length in self.lengths for top_k in self.top_ks]


# Quick takes minutes. Paper has the paper's values and seeds: days of one core, most for the longest spirals.
GRIDS = {
    StudyProfile.QUICK: SpiralGrid(
        heads=(1, 2, 4, 8, 16, 32),
        sparsities=(0.1, 0.3, 0.5, 0.7, 0.9),
        top_ks=(2, 8, 32),
        lengths=(100, 500, 2_000),
        seeds=2,
        steps=250,
    ),
    StudyProfile.PAPER: SpiralGrid(
        heads=(1, 2, 4, 8, 16, 32),
        sparsities=(0.1, 0.3, 0.5, 0.7, 0.8, 0.9),
        top_ks=(2, 4, 8, 16, 32),
        lengths=(100, 500, 1_000, 5_000, 10_000, 20_000, 30_000, 50_000),
        seeds=5,
        steps=600,
    ),
}
