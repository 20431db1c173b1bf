"""`MatchSynapse`: a layer learns which keys to choose.

The paper chooses keys by q · k and then computes logits from the circuit alone, so no gradient ever reaches the
choice. Here the score by which keys are chosen also acts on the logit, as its initial value or in phi:

    match = gain <q, k> / (|q| |k|),

and for "both", the first version of NAC+, also  + time gain <r(q), e(t_query - t_key)>,  where e(s) holds cosine
and sine of s at fixed periods, and r(q), of length at most 1, says which elapsed times the query looks for. Both
are products of a vector of the query with a vector of the key, so every search for the largest q · k also finds
the largest match.
"""

import math
from typing import Unpack

import torch
from torch import Tensor, nn

from nacre.layer.clock import phases
from nacre.layer.config import Match
from nacre.layer.dynamics import wide
from nacre.layer.synapses import Factory

_RHYTHMS = 6  # periods, each twice the one before
# In units of time. Shorter periods separate the few keys that were chosen, but cannot tell keys one period apart:
# with 2 in place of 8, most heads unlearned to choose near keys (docs/nac-plus.md).
_SHORTEST = 8.0
_TINY = 1e-6  # squared length below which a vector fades instead of being scaled to length 1


class MatchSynapse(nn.Module):
    """Vectors whose product is the match of a query and a key, for each head.

    Example:
        >>> synapse = MatchSynapse(heads=2, d_head=4, gain=5.0)
        >>> q, now = torch.randn(3, 2, 4), torch.tensor([0.0, 1.0, 2.0], dtype=torch.float64)
        >>> match = (synapse.asked(q, now) * synapse.offered(q, now)).sum(-1)  # of 3 steps with themselves
        >>> match.shape, bool((match <= 10).all())
        (torch.Size([3, 2]), True)
    """

    def __init__(
        self,
        heads: int,
        d_head: int,
        kind: str = "both",  # or "content"
        gain: float = 8.0,  # initial value
        *,
        bias: bool = True,  # whether the rhythm a query looks for has an additive constant
        **factory: Unpack[Factory],
    ) -> None:
        super().__init__()
        self.start = gain
        timed = kind == Match.BOTH
        self.width = d_head + 2 * _RHYTHMS if timed else d_head
        # Logarithms keep the gains positive: the best match must stay the best.
        self.log_gain = nn.Parameter(torch.empty(1 + timed, heads, **factory))
        self.rhythm_weight = self.rhythm_bias = None
        if timed:
            shape = (heads, d_head, 2 * _RHYTHMS)
            self.rhythm_weight = nn.Parameter(torch.empty(shape, **factory))
            if bias:
                self.rhythm_bias = nn.Parameter(torch.empty(heads, 1, shape[2], **factory))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new weights from torch's global generator."""
        nn.init.constant_(self.log_gain, math.log(self.start))
        if self.rhythm_weight is not None:
            bound = 0.5 / math.sqrt(self.rhythm_weight.shape[1])
            nn.init.uniform_(self.rhythm_weight, -bound, bound)
        if self.rhythm_bias is not None:
            nn.init.zeros_(self.rhythm_bias)

    @property
    def gain(self) -> Tensor:
        """[1 or 2, H] gains of content and of time."""
        return wide(self.log_gain).exp()

    def asked(self, query: Tensor, stamp: Tensor | None) -> Tensor:
        """What queries [R, H, D] with stamps [R] (float64, in units of time; None: 1) look for: [R, H, E]."""
        content = self.gain[0].unsqueeze(-1) * _unit(wide(query))
        if self.rhythm_weight is None:
            return content
        wanted = query.transpose(0, 1) @ self.rhythm_weight  # [H, R, 2F]
        if self.rhythm_bias is not None:
            wanted = wanted + self.rhythm_bias
        cosine, sine = wide(wanted).transpose(0, 1).chunk(2, -1)  # [R, H, F]
        # With zero weights a query looks for near keys, where all cosines are 1.
        cosine, sine = _unit(torch.cat([cosine + 1, sine], -1)).chunk(2, -1)
        now = _phases(query, 1 if stamp is None else stamp)
        cos_now, sin_now = (x.unsqueeze(1) for x in now)  # [R or 1, 1, F]
        # cos(a - b) and sin(a - b) as products of a part of a and a part of b.
        turned = torch.cat([cosine * cos_now + sine * sin_now, cosine * sin_now - sine * cos_now], -1)
        return torch.cat([content, self.gain[1].unsqueeze(-1) * turned], -1)

    def offered(self, key: Tensor, stamp: Tensor | None) -> Tensor:
        """What keys [S, H, D] with stamps [S] (None: 0) offer: [S, H, E], at most of length 1 in either part."""
        content = _unit(wide(key))
        if self.rhythm_weight is None:
            return content
        then = torch.cat(_phases(key, 0 if stamp is None else stamp), -1) / math.sqrt(_RHYTHMS)  # [S or 1, 2F]
        return torch.cat([content, then.unsqueeze(1).expand(*key.shape[:2], -1)], -1)

    def extra_repr(self) -> str:
        """Which synapses there are."""
        return f"heads={self.log_gain.shape[1]}, width={self.width}, timed={self.rhythm_weight is not None}"


def _phases(like: Tensor, stamp: Tensor | int) -> tuple[Tensor, Tensor]:
    """Cosine and sine of stamps [R] at each period: [R, F], [1, F] of a number."""
    stamp = torch.as_tensor(stamp, dtype=torch.float64, device=like.device).reshape(-1)
    return phases(stamp, [_SHORTEST * 2.0**i for i in range(_RHYTHMS)], like.dtype)


def _unit(x: Tensor) -> Tensor:
    """Vectors scaled to a length just below 1; those near 0 stay near 0, so that gradients stay finite."""
    return x * (x.square().sum(-1, keepdim=True) + _TINY).rsqrt()
