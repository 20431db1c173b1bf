"""Saving and loading: exact, atomic, no pickle, no guessing."""

import json
import os

import ncps.wirings
import pytest
import torch

import nacre
from nacre import io
from support.cases import PLUS
from support.refused import refused
from support.saved import weights_of

OPTIONS = {
    "defaults": {},
    "all": {"top_k": None, "mode": "euler", "phi": "tanh", "causal": True, "bias": False, "share_backbone": True},
    "random": {"wiring": "random", "sparsity": 0.9, "seed": 3, "backbone_units": 15},
    "own": {"wiring": ncps.wirings.AutoNCP(12, 2)},
    "no gate": {"mode": "steady", "integrate": False},
    "plus": PLUS,
    "own, with a clock": {"wiring": ncps.wirings.AutoNCP(12, 2), "clock": 2},
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_round_trip_is_bit_exact(tmp_path, dtype):
    for case, options in OPTIONS.items():
        layer = nacre.NAC(8, 2, d_input=3, dtype=dtype, **options)
        again = nacre.load(nacre.save(layer, tmp_path / "a" / case))
        assert isinstance(again, nacre.NAC), case
        assert again.config == layer.config, case
        for (name, a), (other, b) in zip(layer.state_dict().items(), again.state_dict().items(), strict=True):
            assert name == other, case
            assert a.dtype == b.dtype, (case, name)
            assert torch.equal(a, b), (case, name)
        x, time = torch.randn(2, 9, 3, dtype=dtype), torch.rand(2, 9)
        assert torch.equal(layer(x, time=time), again(x, time=time)), case


def test_every_registered_model_round_trips(tmp_path):
    x = torch.randn(2, 9, 3)
    for name in nacre.list_models():
        model = nacre.create(name, d_input=3, d_model=8, num_heads=2).eval()
        again = nacre.load(nacre.save(model, tmp_path / name))
        assert torch.equal(model(x), again(x)), name


def test_wirings_are_read_back_not_drawn_again(tmp_path, monkeypatch):
    """A later ncps may draw other synapses; saved layers must not care."""
    layer = nacre.NAC(8, 2)
    nacre.save(layer, tmp_path)
    monkeypatch.setattr("nacre.layer.attention.backbone_wiring", None)
    monkeypatch.setattr("nacre.layer.attention.sensory_wiring", None)
    assert nacre.load(tmp_path).backbone.wiring == layer.backbone.wiring


def test_saving_again_replaces_and_leaves_nothing_behind(tmp_path):
    nacre.save(nacre.NAC(8, 2), tmp_path)
    second = nacre.NAC(16, 4)
    nacre.save(second, tmp_path)
    assert sorted(p.suffix for p in tmp_path.iterdir()) == [".json", ".safetensors"]
    assert nacre.load(tmp_path).config.d_model == 16


@pytest.mark.parametrize("fails_at", ["weights", "model.json"])
def test_a_failed_save_keeps_the_old_model(tmp_path, monkeypatch, fails_at):
    first = nacre.NAC(8, 2)
    nacre.save(first, tmp_path)
    replace = os.replace

    def full_disk(source, target):
        if os.path.basename(target).startswith(fails_at):
            raise OSError("No space left on device")
        replace(source, target)

    monkeypatch.setattr(os, "replace", full_disk)
    with pytest.raises(OSError, match="No space left"):
        nacre.save(nacre.NAC(8, 2), tmp_path)
    monkeypatch.undo()
    again = nacre.load(tmp_path)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters(), strict=True))
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]


def test_damaged_weights_are_refused(tmp_path):
    nacre.save(nacre.NAC(8, 2), tmp_path)
    file = weights_of(tmp_path)
    whole = file.read_bytes()
    flipped = bytearray(whole)
    flipped[-3] ^= 1
    damaged = {"empty": b"", "7 bytes": whole[:7], "100 bytes": whole[:100], "short": whole[:-1], "bit": flipped}
    for case, data in damaged.items():
        file.write_bytes(data)
        with refused("is damaged .* checksum differs", case=case):
            nacre.load(tmp_path)


CHANGES = [
    ({"format": 2}, "has format 2, this nacre .* reads format 1"),
    ({"format": None}, "has format None"),
    ({"kind": "Transformer9"}, "holds a 'Transformer9'; this nacre .* knows .*NAC"),
    ({"weights": "../../secret.safetensors"}, "no file name of nacre's"),
    ({"weights": 3}, "is damaged: weights must be a str, got 3"),
    ({"weights": "weights-0123456789abcdef.safetensors"}, "is missing"),
    ({"config": {}}, "does not describe its weights"),
    ({"kind": "SDPA", "config": {"d_input": 8, "d_model": 8, "num_heads": 2}}, "does not describe its weights"),
]


def test_a_header_that_does_not_fit_or_is_damaged_is_refused(tmp_path):
    nacre.save(nacre.NAC(8, 2), tmp_path)
    path = tmp_path / "model.json"
    header = json.loads(path.read_text())
    for changes, message in CHANGES:
        path.write_text(json.dumps(header | changes))
        with refused(message, case=str(changes)):
            nacre.load(tmp_path)
    for text in ("", "{", "[]", "{}", '{"format": 1}', "\x00\xff"):
        path.write_text(text, encoding="latin-1")
        with refused(r"model.json is damaged", case=repr(text)):
            nacre.load(tmp_path)


def test_only_what_can_be_described_is_saved(tmp_path):
    class Sub(nacre.NAC):
        """A subclass may have more to it than NAC's config says."""

    advice = (
        "nacre.save knows .*NAC.*; save the tensors of model.state_dict.. with safetensors .* or mark the class"
    )
    for model in (torch.nn.Linear(2, 2), Sub(8, 2)):
        with pytest.raises(TypeError, match=f"cannot save a {type(model).__name__}: {advice}"):
            nacre.save(model, tmp_path / "x")
    with pytest.raises(
        TypeError, match=r"cannot save a DataParallel; save what it wraps: nacre.save\(model.module"
    ):
        nacre.save(torch.nn.DataParallel(nacre.NAC(8, 2)), tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_no_pickle_is_ever_read(tmp_path, monkeypatch):
    nacre.save(nacre.NAC(8, 2), tmp_path)

    def refuse(*_args, **_kwargs):
        raise AssertionError("pickle was used")

    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(f"pickle.{name}", refuse)
    monkeypatch.setattr(torch, "load", refuse)
    nacre.load(tmp_path)


def test_the_header_says_where_it_comes_from(tmp_path):
    nacre.save(nacre.NAC(8, 2), tmp_path)
    header = json.loads((tmp_path / "model.json").read_text())
    assert header["nacre"] == nacre.__version__
    assert header["format"] == io.FORMAT
    assert header["torch"] == torch.__version__
