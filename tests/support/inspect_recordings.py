"""What the tests of recordings have in common."""

import numpy as np
import torch
from torch import nn

import nacre
from nacre.inspect.recording.layer_writer import OF_CIRCUIT, PAIR_GATES, SENSORY

PAIRS = (*PAIR_GATES, "index", "valid", *OF_CIRCUIT)
WIDTH, STEPS = 16, 37


def sequences(samples=3, steps=STEPS, width=WIDTH):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(samples, steps, width, generator=generator)
    return x, torch.rand(samples, steps, generator=generator).cumsum(1) + 100


def padded(samples=3, steps=STEPS):
    """One sample ends early, another has holes and starts late."""
    padding = torch.zeros(samples, steps, dtype=torch.bool)
    padding[1, 20:] = True
    padding[2, :2] = padding[2, 9:12] = padding[2, 30] = True
    return padding


def bits(array, dtype="float32"):
    """The bits of an array, so that -0 is not 0 and NaN is NaN."""
    array = np.ascontiguousarray(np.asarray(array))
    return array.astype(dtype).view(f"u{np.dtype(dtype).itemsize}") if array.dtype.kind == "f" else array


def assert_holds(layer, trace, dtype="float32", detail="pairs"):
    """A layer's recording is this trace, in the bits of a dtype."""
    for name in PAIRS:
        want = getattr(trace, name)
        if want is None or (detail == "means" and name in OF_CIRCUIT):
            assert not layer.has(name), name
            continue
        got = np.asarray(layer.array(name)[...])
        want = want.detach().transpose(1, 2).numpy()
        assert got.shape == want.shape, name
        assert np.array_equal(bits(got, dtype), bits(want, dtype)), name
    for name in SENSORY:
        got, want = np.asarray(layer.array(name)[...]), getattr(trace, name).detach().transpose(1, 2).numpy()
        assert np.array_equal(bits(got[:, : want.shape[1]], dtype), bits(want, dtype)), name
        assert not got[:, want.shape[1] :].any()


class Cross(nn.Module):
    """Attends from its input to a memory of its own length."""

    def __init__(self, keys=11, **options):
        super().__init__()
        self.layer = nacre.NAC(WIDTH, 2, **options)
        self.register_buffer("memory", torch.randn(1, keys, WIDTH))
        self.register_buffer("stamps", torch.rand(1, keys).cumsum(1) + 100)

    def forward(self, x, time=None):
        k = self.memory.expand(len(x), -1, -1)
        key_time = None if time is None else self.stamps.expand(len(x), -1)
        return self.layer(x, k, 2 * k, time=time, key_time=key_time)


class Two(nn.Module):
    """Two layers, the first of which runs twice, and one that never does."""

    def __init__(self):
        super().__init__()
        self.never, self.second, self.first = (nacre.NAC(WIDTH, 2) for _ in range(3))
        self.drop = nn.Dropout(0.5)

    def forward(self, x, time=None, key_padding_mask=None):
        given = {"time": time, "key_padding_mask": key_padding_mask}
        x = self.drop(self.first(x, **given))
        x = self.second(x + 1, **given)
        return self.first(x, **given)


class Broken(nn.Module):
    """Fails after its layer ran."""

    def __init__(self):
        super().__init__()
        self.layer = nacre.NAC(WIDTH, 2)

    def forward(self, x, time=None):
        self.layer(x, time=time)
        raise ArithmeticError("no luck")
