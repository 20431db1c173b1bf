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

# A product is cheap beside a circuit: of 256 keys a query is compared with all, of 1,024 with a quarter.
PLUS: dict[str, Any] = {"match": "both", "reach": 256}

# What `nacre tune` searches; a row of the paper's table keeps what it stands for.
SPACE: Space = {
    "top_k": Whole(2, 32, log=True),
    "sparsity": Real(0.1, 0.9),
    "mode": Choice(tuple(map(str, Mode))),
    "phi": Choice(tuple(map(str, Phi))),
}
PLUS_SPACE: Space = {"gain": Real(1.0, 16.0, log=True)}


def _register(name: str, preset: dict[str, Any], summary: str, *, paper: str = "Razzaq and Zhao, 2026") -> None:
    info = ModelInfo(
        name,
        kind="NAC",
        paper=paper,
        summary=summary,
        uses_time=True,
        causal=False,
        cost="T² n" if preset.get("top_k", 8) is None else "T√T d + TKn",
        checked="slow reference",
        version=2,  # 2: blocks of a row's valid keys alone; causal blocks of 64
    )
    space = {option: dimension for option, dimension in SPACE.items() if option not in preset}
    space |= PLUS_SPACE if "match" in preset else {}

    @register(info, space)
    def factory(*, d_input: int, d_model: int, num_heads: int, **options: Any) -> NAC:  # noqa: ANN401
        for option, value in preset.items():
            if options.get(option, value) != value:
                raise ValueError(
                    f"{name} means {option}={value!r}, got {options[option]!r}; use 'nac' to choose freely"
                )
        return NAC(d_model, num_heads, d_input=d_input, **{**options, **preset})


for _name, (_preset, _summary) in VARIANTS.items():
    _register(_name, _preset, _summary)
_register("nac-plus", PLUS, "match synapses: keys are chosen by what moves their logits", paper="nacre, after NAC")
