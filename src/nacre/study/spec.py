"""Models as they are named on a command line: `nac`, or with options `nac:match=content,top_k=4`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from torch import nn

from nacre.models._registry import create, model_info

_WORDS = {"none": None, "true": True, "false": False}


@dataclass(frozen=True)
class ModelSpec:
    """A model of the zoo with some options."""

    name: str
    options: tuple[tuple[str, object], ...] = ()  # (option, value) in the order given

    @classmethod
    def parse(cls, text: str) -> ModelSpec:
        """Read `name` or `name:option=value,...`; values are numbers, true, false, none or words.

        Raises:
            ValueError: If the model is unknown, or the text has another form.

        Example:
            >>> ModelSpec.parse("nac:match=content,top_k=4").options
            (('match', 'content'), ('top_k', 4))
        """
        name, _, rest = text.partition(":")
        model_info(name)  # refuses unknown names
        options = []
        for part in rest.split(",") if rest else ():
            option, equals, value = part.partition("=")
            if not (equals and option and value):
                raise ValueError(f"a model must look like 'nac:match=content,top_k=4', got {text!r}")
            # "none" is also the word for no match synapse.
            options.append((option, value if option == "match" else _value(value)))
        return cls(name, tuple(options))

    def replace(self, **options: object) -> ModelSpec:
        """The same model with other values of some options."""
        return ModelSpec(self.name, tuple((dict(self.options) | options).items()))

    def create(self, *, d_input: int, d_model: int, num_heads: int) -> nn.Module:
        """The model.

        Raises:
            ValueError: If the options do not suit it.
        """
        try:
            return create(self.name, d_input=d_input, d_model=d_model, num_heads=num_heads, **dict(self.options))
        except TypeError as error:  # an option that it does not have
            raise ValueError(str(error)) from None

    @property
    def is_nac(self) -> bool:
        """Whether it is a NAC layer."""
        return model_info(self.name).kind == "NAC"

    @property
    def uses_time(self) -> bool:
        """Whether time stamps change its output."""
        return model_info(self.name).uses_time

    @property
    def slug(self) -> str:
        """The text as part of a file name."""
        return re.sub(r"[^A-Za-z0-9.+-]+", "_", str(self))

    def __str__(self) -> str:
        """As it is parsed."""
        options = ",".join(f"{k}={'none' if v is None else str(v).lower()}" for k, v in self.options)
        return f"{self.name}:{options}" if options else self.name


def _value(text: str) -> object:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:  # not a number of this kind
            continue
    return text
