"""The 13 NAC rows of the paper's results table, and `nac-plus`, ours."""

from typing import Any

from nacre.layer.attention import NAC
from nacre.layer.config import Phi
from nacre.layer.dynamics import Mode
from nacre.models._registry import ModelInfo, register
from nacre.models._search_space import Choice, Real, Space, Whole

# name -> what differs from the defaults (exact mode, top_k 8, sparsity 0.5, NCP wiring), and in words
VARIANTS: dict[str, tuple[dict[str, Any], str]] = {
    "nac": ({}, "the paper's main model: exact logits, 8 keys, half of the synapses"),
    "nac-2k": ({"top_k": 2}, "2 keys for each query"),
    "nac-32k": ({"top_k": 32}, "32 keys for each query"),
    "nac-pw": ({"top_k": None}, "all pairs"),
    "nac-02s": ({"sparsity": 0.2}, "a fifth of the synapses left out"),
    "nac-09s": ({"sparsity": 0.9}, "nine tenths of the synapses left out"),
    "nac-fc": ({"wiring": "mlp", "sparsity": 0.0}, "fully connected layers in place of the circuit"),
    "nac-05sfc": ({"wiring": "mlp"}, "fully connected layers under a fixed random mask of one half"),
    "nac-rw": ({"wiring": "random"}, "randomly wired circuit"),
    "nac-phi-linear": ({"phi": "linear"}, "content target without bounds"),
    "nac-phi-tanh": ({"phi": "tanh"}, "content target from -1 to 1"),
    "nac-euler": ({"mode": "euler"}, "logits by explicit Euler steps"),
    "nac-steady": ({"mode": "steady"}, "logits at their steady state"),
}

# What was tried, and what each part is worth: docs/nac-plus.md.
PLUS: dict[str, Any] = {
    "match": "content",
    "near": 8,
    "top_k": 16,
    "clock": 6,
    "phi": "linear",
    "sensory_activation": "identity",
    "integrate": False,
    "inhibition": True,
    "backbone_units": 23,  # 12 inter, 8 command and 3 motor neurons: a person can read them all
    "sparsity": 0.0,  # so small, it needs all of its synapses
    # A product is cheap beside a circuit: of 256 keys a query is compared with all, of 1,024 with a quarter.
    "reach": 256,
}
_FIRST_PLUS: dict[str, Any] = {"match": "both", "reach": 256}
_THIRD_PLUS: dict[str, Any] = {"inhibition": False, "backbone_units": 22}  # what differs from `PLUS`


def saved_plus(version: int, options: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Name and options with which a `nac-plus` that was saved at some version is made again, as what it was.

    Example:
        >>> saved_plus(3, {"top_k": 8})
        ('nac-plus', {'inhibition': False, 'backbone_units': 22, 'top_k': 8})
    """
    if version < 3:
        return "nac", {**_FIRST_PLUS, **options}
    return "nac-plus", {**_THIRD_PLUS, **options} if version == 3 else options


# What `nacre tune` searches; a row of the paper's table keeps what it stands for.
SPACE: Space = {
    "top_k": Whole(2, 32, log=True),
    "sparsity": Real(0.1, 0.9),
    "mode": Choice(tuple(map(str, Mode))),
    "phi": Choice(tuple(map(str, Phi))),
}
PLUS_SPACE: Space = {
    "top_k": Whole(8, 32, log=True),
    "near": Whole(0, 8),
    "clock": Whole(2, 8),
    "backbone_units": Whole(12, 48, log=True),
    "sparsity": Real(0.0, 0.9),
    "gain": Real(1.0, 16.0, log=True),
    "mode": Choice(tuple(map(str, Mode))),
    "phi": Choice(tuple(map(str, Phi))),
}


def _info(name: str, summary: str, *, paper: str, version: int, all_pairs: bool = False) -> ModelInfo:
    return ModelInfo(
        name,
        kind="NAC",
        in_paper=paper.startswith("Razzaq"),
        paper=paper,
        summary=summary,
        uses_time=True,
        causal=False,
        cost="T² n" if all_pairs else "T√T d + TKn",
        checked="slow reference",
        version=version,
    )


def _register(name: str, preset: dict[str, Any], summary: str) -> None:
    # Version 2: blocks of a row's valid keys alone; causal blocks of 64.
    all_pairs = preset.get("top_k", 8) is None
    info = _info(name, summary, paper="Razzaq and Zhao, 2026", version=2, all_pairs=all_pairs)
    space = {option: dimension for option, dimension in SPACE.items() if option not in preset}

    @register(info, space, preset)
    def factory(*, d_input: int, d_model: int, num_heads: int, **options: Any) -> NAC:  # noqa: ANN401
        for option, value in preset.items():
            if options.get(option, value) != value:
                raise ValueError(
                    f"{name} means {option}={value!r}, got {options[option]!r}; use 'nac' to choose freely"
                )
        return NAC(d_model, num_heads, d_input=d_input, **{**options, **preset})


for _name, (_preset, _summary) in VARIANTS.items():
    _register(_name, _preset, _summary)


# Version 3: clock neurons, near keys, and a small circuit. Version 4: inhibition. Version 5: it starts near 1 for
# all values.
@register(
    _info("nac-plus", "a small circuit that senses elapsed time", paper="nacre, after NAC", version=5),
    PLUS_SPACE,
    PLUS,
)
def nac_plus(*, d_input: int, d_model: int, num_heads: int, **options: Any) -> NAC:  # noqa: ANN401
    """NAC+ with its usual options, of which any can be given otherwise. Of another `top_k`, half are near keys."""
    if isinstance(keys := options.get("top_k"), int):
        options = {"near": keys // 2, **options}
    return NAC(d_model, num_heads, d_input=d_input, **{**PLUS, **options})
