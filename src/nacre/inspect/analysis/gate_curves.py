"""`GateCurves`: gates of every step, as means over its keys, from a forward pass that nobody records."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from nacre.layer.pairs import Gates
from nacre.layer.trace import Scene


def gate_means(names: Sequence[str], gates: Mapping[str, Tensor], valid: Tensor) -> Tensor:
    """Means over keys by attention weight, and the effective number of keys: [..., K] each -> [..., names].

    Args:
        names: Gates, and "keys".
        gates: Values by name, `weights` among them; zero where there is no key.
        valid: Columns that hold a key.
    """
    weights = gates["weights"]
    keys = torch.special.entr(weights.double()).sum(-1).exp() * valid.any(-1)
    columns = [keys.to(weights.dtype) if name == "keys" else (weights * gates[name]).sum(-1) for name in names]
    return torch.stack(columns, -1)


class GateCurves:
    """An observer of one layer.

    Args:
        names: Gates, and "keys", as in a recording.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._scene: Scene | None = None
        self._seen: list[Tensor] = []

    def begin(self, scene: Scene) -> None:
        """Forget the call before."""
        self._scene, self._seen = scene, []

    def see(self, rows: slice, gates: Gates, neurons: Mapping[tuple[int, ...], Tensor]) -> None:
        """Keep means of what is told."""
        scene = self._scene
        assert scene is not None
        flat = scene.valid.transpose(0, 1).flatten(1, 2)  # [H, B * T, K]
        if scene.queries.rows is not None:
            flat = flat[:, scene.queries.rows]
        valid = flat[:, rows]
        values = {name: x.masked_fill(~valid, 0) for name, x in vars(gates).items() if x is not None}
        self._seen.append(gate_means(self._names, values, valid))  # [H, C, names]

    def curves(self) -> Tensor:
        """[B, T, H, names], zero at padding."""
        scene = self._scene
        assert scene is not None
        x = torch.cat(self._seen, 1).transpose(0, 1)  # [R, H, names]
        batch, length = scene.queries.batch, scene.queries.length
        if (kept := scene.queries.rows) is not None:
            x = x.new_zeros(batch * length, *x.shape[1:]).index_copy(0, kept, x)
        return x.unflatten(0, (batch, length))
