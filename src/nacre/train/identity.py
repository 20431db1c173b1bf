"""What decides the result of a cell, and its checksum: of equal fingerprints, one need be trained."""

from dataclasses import dataclass

from nacre._util.digest import checksum
from nacre.tasks.controls import CONTROLS
from nacre.tasks.recipe import DIGEST_RULE, Precision, Profile, Recipe


@dataclass(frozen=True)
class Identity:
    """All that a result depends on.

    Example:
        >>> from dataclasses import replace
        >>> from nacre.tasks.recipe import load_recipe
        >>> one = Identity(load_recipe("spiral"), "nac", 0, "checksum of data", "checksum of a split")
        >>> one.fingerprint == replace(one, version=2).fingerprint
        False
    """

    recipe: Recipe
    model: str  # or control
    seed: int
    data: str  # checksum
    split: str  # checksum
    profile: Profile = Profile.STANDARD
    precision: Precision = Precision.FLOAT32
    version: int = 1  # of the model
    source: str = ""  # checksum of the source of a model that is not of nacre
    steps: int = 0  # of a final run; folds have those of their profile

    @property
    def settings(self) -> str:
        """Checksum of what the recipe says to every model in this profile: what rows of a table share."""
        return checksum([DIGEST_RULE, self.recipe.settings(self.profile)])

    @property
    def fingerprint(self) -> str:
        """Checksum of everything that decides the result.

        Options that only other models or profiles use do not count, nor those that are as by default. A control
        does not train, so for it nothing counts but task, data and split.
        """
        recipe = self.recipe.settings(self.profile)
        parts = {"model": self.model, "version": self.version, "seed": self.seed}
        parts |= {"rule": DIGEST_RULE, "data": self.data, "split": self.split}
        if self.model in CONTROLS:
            recipe = {key: recipe[key] for key in ("name", "metric", "data") if key in recipe}
        else:
            parts |= {"profile": self.profile, "precision": self.precision, "source": self.source}
            parts |= {"options": self.recipe.options(self.model)}
        if self.steps:
            parts |= {"steps": self.steps}
        return checksum(parts | {"recipe": recipe})
