"""What can be measured: every name builds a module that runs, and names are found by pattern."""

import pytest
import torch

import nacre
from nacre.bench import entries

OUTSIDE = ["torch-mha", "torch-mha-fastpath", "torch-gru", "ncps-cfc", "ncps-ltc"]


def test_every_entry_runs_forward_and_backward():
    for name in entries.available():
        model = entries.build(name, 8, 2)
        y = model(torch.randn(2, 6, 8))
        assert y.shape == (2, 6, 8), name
        y.sum().backward()
        assert any(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters()), name


def test_all_of_the_zoo_and_the_outside_ones_are_there():
    assert set(nacre.list_models()) | set(OUTSIDE) <= set(entries.available())


def test_the_same_weights_each_time():
    first, second = (dict(entries.build("nac", 8, 2).named_parameters()) for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize(("name", "called"), [("torch-mha", 0), ("torch-mha-fastpath", 1)])
def test_only_the_fastpath_entry_takes_the_fast_path(name, called, monkeypatch):
    calls = []
    native = torch._native_multi_head_attention
    monkeypatch.setattr(torch, "_native_multi_head_attention", lambda *a, **k: calls.append(1) or native(*a, **k))
    model, x = entries.build(name, 8, 2), torch.randn(1, 6, 8)
    with torch.inference_mode():
        model.eval()(x)
        assert len(calls) == called
        model.train()(x)
    assert len(calls) == called
    assert torch.backends.mha.get_fastpath_enabled()  # as it was


def test_both_give_the_same_numbers():
    x = torch.randn(1, 6, 8)
    with torch.inference_mode():
        plain, fast = (entries.build(name, 8, 2).eval()(x) for name in OUTSIDE[:2])
    torch.testing.assert_close(plain, fast)


def test_the_circuits_of_ncps_fit_any_width():
    for d_model in (2, 3, 64):
        for name in ("ncps-cfc", "ncps-ltc"):
            y = entries.build(name, d_model, 1)(torch.randn(1, 2, d_model))
            assert y.shape == (1, 2, d_model), (name, d_model)


def test_names_and_patterns():
    assert entries.resolve(["torch-g*, nac", "nac,nac-2k"]) == ["torch-gru", "nac", "nac-2k"]
    assert entries.resolve(["nac-*"]) == nacre.list_models("nac-*")


def test_unknown_names_are_refused():
    for name, message in {
        "nac-3k": "models must be one of .* got 'nac-3k'; did you mean 'nac-32k'",
        "torch-mah": "did you mean 'torch-mha'",
        "zz*": "models must be one of",
        " , ": "at least one model",
    }.items():
        with pytest.raises(ValueError, match=message):
            entries.resolve([name])


def test_torch_nac_only_where_it_is_installed(monkeypatch):
    monkeypatch.setattr(entries, "_has_torch_nac", lambda: False)
    assert "torch-nac" not in entries.available()
    with pytest.raises(ValueError, match="'torch-nac', which is not installed; pip install"):
        entries.resolve(["torch-nac"])
    monkeypatch.setattr(entries, "_has_torch_nac", lambda: True)
    assert "torch-nac" in entries.available()
