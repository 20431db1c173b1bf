"""The network of the recall study: one layer, read out at the step that asks."""

from torch import Tensor, nn

from nacre.layer.attention import NAC
from nacre.study.recall.data import VALUES, WIDTH, Sample
from nacre.study.spec import ModelSpec

_D_MODEL, _HEADS = 32, 4


class RecallNetwork(nn.Module):
    """A model of the zoo and a linear read-out of its answer to the last step.

    Args:
        spec: The model.

    Example:
        >>> from nacre.study.recall.data import draw
        >>> from nacre.study.spec import ModelSpec
        >>> net = RecallNetwork(ModelSpec("nac-plus"))
        >>> net(draw("key", 2, 24, torch.Generator().manual_seed(0))).shape
        torch.Size([2, 4])
    """

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.layer = spec.create(d_input=WIDTH, d_model=_D_MODEL, num_heads=_HEADS)
        self.read = nn.Linear(_D_MODEL, VALUES)
        self._uses_time = spec.uses_time

    def forward(self, sample: Sample) -> Tensor:
        """Scores [B, VALUES] of each value."""
        if not self._asks_alone:
            time = sample.time if self._uses_time else None
            return self.read(self.layer(sample.x, time=time)[:, -1])
        return self.read(self.layer(*_asked(sample), **_stamps(sample))[:, 0])

    def found(self, sample: Sample) -> float | None:
        """Share of the heads' choices of keys that hold the item asked for; None where the model chooses none."""
        if not self._asks_alone:
            return None
        _, trace = self.layer(*_asked(sample), **_stamps(sample), return_trace=True)
        hit = (trace.index == sample.place.view(-1, 1, 1, 1)) & trace.valid
        return hit.any(-1).float().mean().item()

    @property
    def _asks_alone(self) -> bool:
        """Whether the last step can be asked without the others: the same answer, much sooner."""
        return isinstance(self.layer, NAC) and not self.layer.config.causal


def _asked(sample: Sample) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value."""
    return sample.x[:, -1:], sample.x, sample.x


def _stamps(sample: Sample) -> dict[str, Tensor]:
    if sample.time is None:
        return {}
    return {"time": sample.time[:, -1:], "key_time": sample.time}
