"""The bench measures what it says; no test asserts a time."""

from nacre.bench import __main__ as command
from nacre.bench import speed


def test_measure_times_both_models():
    timings = speed.measure(length=16, d_model=8, num_heads=2, rounds=3)
    assert [t.name for t in timings] == ["torch.nn.MultiheadAttention", "nacre.NAC"]
    assert all(t.forward > 0 and t.step > 0 and t.forward_spread >= 0 for t in timings)
    assert timings[0].parameters == 8 * 8 * 4 + 8 * 4


def test_the_table_is_printed(monkeypatch, capsys):
    monkeypatch.setattr(command, "measure", lambda: speed.measure(16, 8, 2, rounds=2))
    command.main()
    out = capsys.readouterr().out
    assert "nacre.NAC" in out
    assert "1.0" in out
