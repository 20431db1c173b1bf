"""What the viewer tells of odd numbers, large stamps and padded samples."""

import numpy as np
import torch

import nacre
from nacre.inspect import record
from nacre.inspect.viewer.source import ViewerSource, plain
from support.viewer import ask, sequences, serving


def test_the_smallest_numbers_are_numbers():
    assert np.isfinite(plain([1e-310])).all()


def test_stamps_of_a_long_recording_differ():
    assert len(set(plain(np.arange(2_000_000, 2_000_010) * 0.5, 14))) == 10


def padded(out, which):
    x, time = sequences(2, 12)
    padding = torch.zeros(2, 12, dtype=torch.bool)
    padding[1, which] = True
    torch.manual_seed(0)
    return record(nacre.NAC(8, 2).eval(), x, time, padding, out=out), time


def test_a_sample_that_is_all_padding_is_refused_or_shown_empty(tmp_path):
    recording, _ = padded(tmp_path / "padded", slice(None))
    with serving(recording) as port:
        assert ask(port, "/api/curves").status == 200
        for route in ("curves", "steps", "spread", "neuron?column=0"):
            assert ask(port, f"/api/{route}{'&' if '?' in route else '?'}sample=1").status in (200, 400)


def test_stamps_of_a_sample_that_starts_with_padding_are_its_own(tmp_path):
    recording, time = padded(tmp_path / "padded", slice(0, 3))
    steps = ViewerSource(recording).steps(1, "nac", 0, 0, 12)
    stamps = time[1].double().numpy()
    np.testing.assert_allclose(np.diff(steps["time"][3:]), np.diff(stamps[3:]), atol=1e-3)
    assert steps["time"][4] < 20  # not 100


def test_steps_of_a_sample_with_padding_at_both_ends_belong_to_their_inputs(tmp_path):
    x, time = sequences(1, 12)
    padding = torch.zeros(1, 12, dtype=torch.bool)
    padding[0, :2] = padding[0, 10:] = True
    recording = record(nacre.NAC(8, 2).eval(), x, time, padding, out=tmp_path / "padded")
    assert ViewerSource(recording).steps(0, "nac", 0, 2, 10)["inputStep"] == list(range(2, 10))
