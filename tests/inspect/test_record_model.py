"""Recording leaves a model as it was, keeps it, and refuses what cannot be recorded or read."""

import json
import shutil

import numpy as np
import pytest
import torch
from torch import nn

import nacre
from nacre.inspect import Recording, record
from nacre.inspect.analysis.rerun import Rerun
from nacre.inspect.recording.hooks import layers_of
from nacre.inspect.recording.layer_writer import PAIR_GATES
from nacre.layer import pairs
from nacre.layer.trace import BACKBONE
from nacre.native import library
from support.inspect import NAC_LAYER, layer_call
from support.inspect_recordings import STEPS, WIDTH, Broken, Two, assert_holds, bits, padded, sequences

# The model is left alone


@pytest.mark.slow
def test_modes_of_training_are_restored_and_observers_go(tmp_path):
    model, (x, time) = Two(), sequences(1, 20)
    model.second.eval()
    before = [m.training for m in model.modules()]
    assert any(before)
    assert not all(before)
    recording = record(model, x, time, out=tmp_path / "look")
    assert [m.training for m in model.modules()] == before
    assert all(layer.observer is None for layer in layers_of(model).values())
    again = record(model.eval(), x, time, out=tmp_path / "again")  # dropout did nothing the first time
    assert not any(m.training for m in model.modules())
    assert np.array_equal(bits(recording.array("output")[...]), bits(again.array("output")[...]))


def test_an_error_in_the_model_leaves_neither_directory_nor_observer(tmp_path):
    model, (x, time) = Broken().train(), sequences()
    with pytest.raises(ArithmeticError, match="no luck"):
        record(model, x, time, out=tmp_path / "look")
    assert list(tmp_path.iterdir()) == []
    assert model.layer.observer is None
    assert model.training
    assert model.layer.training


def test_an_error_leaves_the_earlier_recording_as_it_was(tmp_path):
    x, time = sequences()
    earlier = record(nacre.NAC(WIDTH, 2), x, time, out=tmp_path / "look")
    output = np.asarray(earlier.array("output")[...])
    with pytest.raises(ArithmeticError):
        record(Broken(), x, time, out=tmp_path / "look")
    assert [p.name for p in tmp_path.iterdir()] == ["look"]
    assert np.array_equal(np.asarray(Recording(tmp_path / "look").array("output")[...]), output)


def test_a_model_that_fails_to_be_saved_leaves_nothing_behind(tmp_path):
    model, (x, time) = nacre.NAC(WIDTH, 2), sequences()
    model.key_gate = model.query_gate  # weights that safetensors refuses
    with pytest.raises(RuntimeError, match="share memory"):
        record(model, x, time, out=tmp_path / "look")
    assert list(tmp_path.iterdir()) == []


def test_a_new_recording_replaces_the_earlier_one_and_nothing_else_is_left(tmp_path):
    x, time = sequences()
    record(nacre.NAC(WIDTH, 4), x, time, out=tmp_path / "look")
    new = record(nacre.NAC(WIDTH, 2), x[:1], time[:1], out=str(tmp_path / "look"))
    assert (new.samples, new.layers["nac"].heads) == (1, 2)
    assert [p.name for p in tmp_path.iterdir()] == ["look"]
    assert sorted(p.name for p in (tmp_path / "look").iterdir()) == ["model", "trace.zarr"]


def test_folders_above_are_made(tmp_path):
    x, time = sequences(1)
    assert record(nacre.NAC(WIDTH, 2), x, time, out=tmp_path / "a" / "b").path == tmp_path / "a" / "b"


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_what_is_no_recording_is_not_overwritten(kind, tmp_path):
    place = tmp_path / "mine"
    if kind == "folder":
        place.mkdir()
        (place / "thesis.tex").write_text("years of work")
    else:
        place.write_text("years of work")
    x, time = sequences(1)
    with pytest.raises(ValueError, match="out must be a new directory or an earlier recording, but .*mine"):
        record(nacre.NAC(WIDTH, 2), x, time, out=place)
    assert [p.name for p in tmp_path.iterdir()] == ["mine"]
    assert (place / "thesis.tex" if kind == "folder" else place).read_text() == "years of work"


# The model in the recording


def test_the_model_in_a_recording_is_the_model(tmp_path):
    model, (x, time), padding = nacre.NAC(WIDTH, 2, match="content").eval(), sequences(), padded()
    recording = record(model, x, time, padding, out=tmp_path / "one")
    assert recording.has_model
    kept = recording.model()
    assert not kept.training
    assert torch.equal(kept(x, time=time, key_padding_mask=padding), model(x, time=time, key_padding_mask=padding))


def test_a_module_that_nacre_cannot_save_is_recorded_without_it(tmp_path):
    x, time = sequences(1)
    recording = record(Two(), x, time, out=tmp_path / "look")
    assert not recording.has_model
    assert not (tmp_path / "look" / "model").exists()
    assert not Recording(tmp_path / "look").has_model
    with pytest.raises(ValueError, match="holds no model, because nacre cannot save its class"):
        recording.model()
    with pytest.raises(ValueError, match="holds no model"):
        Rerun(recording, 0)


@pytest.mark.slow
@pytest.mark.parametrize("samples", [1, 3])
def test_a_rerun_gives_the_recorded_output(samples, tmp_path):
    model, (x, time) = nacre.NACEncoder(nacre.NACConfig(d_model=WIDTH, num_heads=2), 2), sequences()
    some = slice(3 - samples, 3)
    for padding in (None, padded()[some]):
        recording = record(model, x[some], time[some], padding, out=tmp_path / "look")
        for sample in range(samples):
            rerun = Rerun(recording, sample)
            outputs = rerun.outputs()
            assert outputs.answer is None
            np.testing.assert_allclose(outputs.curve[0], recording.array("output")[sample], atol=1e-5)
            if samples == 1:  # products of matrices have other last bits where there are more rows
                assert np.array_equal(bits(outputs.curve[0]), bits(recording.array("output")[sample]))
                for name, layer in recording.layers.items():
                    assert np.array_equal(bits(rerun.gates([], name)), bits(layer.array("gates")[sample]))


@pytest.mark.slow
@pytest.mark.parametrize("kernels", [True, False], ids=["kernels", "torch"])
def test_gates_of_a_rerun_in_many_chunks_are_those_that_were_recorded(kernels, monkeypatch, tmp_path):
    monkeypatch.setattr(pairs, "CHUNK_NUMBERS", 2**12)
    if not kernels:
        monkeypatch.setattr(library, "runs", lambda *tensors: False)
    x, time = sequences(1)
    # Causal: the first steps have columns without a key, so that it matters which step a row is.
    recording = record(nacre.NAC(WIDTH, 2, causal=True), x, time, padded()[2:], out=tmp_path / "look")
    got = Rerun(recording, 0).gates([], "nac")
    assert np.array_equal(bits(got), bits(recording.layers["nac"].array("gates")[0]))


def test_a_rerun_without_time_gives_the_recorded_output(tmp_path):
    model, (x, _) = nacre.NAC(WIDTH, 2), sequences()
    recording = record(model, x, out=tmp_path / "look")
    assert np.array_equal(bits(Rerun(recording, 1).outputs().curve[0]), bits(recording.array("output")[1]))


# What is refused


def test_a_model_without_nac_is_refused_and_nothing_is_left(tmp_path):
    with pytest.raises(ValueError, match="model must have a nacre.NAC layer to look into; Linear has none"):
        record(nn.Linear(WIDTH, 2), sequences()[0], out=tmp_path / "look")
    assert list(tmp_path.iterdir()) == []


def test_a_model_whose_layers_do_not_run_is_refused(tmp_path):
    class Idle(Two):
        def forward(self, x):
            return x

    with pytest.raises(ValueError, match=r"none of the NAC layers of Idle ran \(never, second, first\)"):
        record(Idle(), sequences()[0], out=tmp_path / "look")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_model_that_gives_no_tensor_is_refused(tmp_path):
    class Pair(Two):
        def forward(self, x):
            return super().forward(x), 1

    with pytest.raises(ValueError, match=r"model must give a tensor .* got tuple"):
        record(Pair(), sequences()[0], out=tmp_path / "look")
    assert list(tmp_path.iterdir()) == []


def test_bad_arguments_are_refused_by_name(tmp_path):
    cases = [
        ({"x": torch.randn(37, 16)}, ValueError, r"x must be a tensor \[batch, steps, features\], got \(37, 16\)"),
        ({"x": [[1.0]]}, ValueError, r"x must be .* got list"),
        ({"time": torch.rand(3, 36)}, ValueError, r"time must have shape \(3, 37\)"),
        ({"time": torch.rand(36)}, ValueError, r"time must have shape \(3, 37\)"),
        ({"time": [1.0]}, TypeError, "time must be a tensor of real time stamps"),
        ({"key_padding_mask": torch.zeros(3, 36).bool()}, ValueError, "key_padding_mask must have shape"),
        ({"key_padding_mask": torch.zeros(3, 37)}, TypeError, "key_padding_mask must be a bool tensor"),
        ({"dtype": "float64"}, ValueError, "dtype must be one of 'float32', 'float16', got 'float64'"),
        ({"dtype": torch.float32}, ValueError, "dtype must be one of"),
        (
            {"detail": "pair"},
            ValueError,
            "detail must be one of 'pairs', 'means', got 'pair'; did you mean 'pairs'",
        ),
    ]
    x, time = sequences()
    for changes, kind, message in cases:
        arguments = {"x": x, "time": time, "key_padding_mask": None, **changes}
        with pytest.raises(kind, match=message):
            record(nacre.NAC(WIDTH, 2), **arguments, out=tmp_path / "look")
        assert list(tmp_path.iterdir()) == [], message


def test_stamps_are_checked_even_if_the_model_does_not_take_them(tmp_path):
    class Timeless(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nacre.NAC(WIDTH, 2)

        def forward(self, x):
            return self.layer(x)

    with pytest.raises(ValueError, match=r"time must have shape \(3, 37\)"):
        record(Timeless(), sequences()[0], torch.rand(3, 36), out=tmp_path / "look")
    assert list(tmp_path.iterdir()) == []


def test_where_there_is_no_key_at_all_everything_is_zero(tmp_path):
    x, time = sequences(1)
    recording = record(nacre.NAC(WIDTH, 2), x, time, torch.ones(1, STEPS).bool(), out=tmp_path / "look")
    layer = recording.layers["nac"]
    for name in ("gates", *PAIR_GATES[:3], "logits", "weights", *BACKBONE):
        assert not np.asarray(layer.array(name)[...]).any(), name
    assert not Rerun(recording, 0).gates([], "nac").any()


def test_a_task_network_needs_time(tmp_path):
    network = nacre.TaskNetwork("nac", "classification", 3, 5, d_model=16, num_heads=2)
    with pytest.raises(ValueError, match="a task network needs time"):
        record(network, torch.randn(2, 9, 3), out=tmp_path / "look")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["classification", "step-classification"])
def test_a_task_network_is_recorded_and_run_again(kind, tmp_path):
    options = {"d_model": WIDTH, "num_heads": 2, "conv": [[6, 3, 1]]}
    network = nacre.TaskNetwork("nac", kind, 3, 5, **options).eval()
    x, time = sequences(2, 30, 3)
    padding = torch.zeros(2, 30).bool()
    padding[1, 20:] = True
    with torch.no_grad():
        plain = network(x, time, padding)
        nac, call = layer_call(network, *network.tokens(x, time, padding))
        _, trace = nac(**call, return_trace=True)
    recording = record(network, x, time, padding, out=tmp_path / "look")
    assert_holds(recording.layers[NAC_LAYER], trace)
    output = np.asarray(recording.array("output")[...])
    assert output.shape == (2, 30, 5)
    for sample in range(2):
        again = Rerun(recording, sample).outputs()
        np.testing.assert_allclose(again.curve[0], output[sample], atol=1e-5)  # alone: other last bits
        if kind == "classification":
            torch.testing.assert_close(again.answer[0], plain[sample])
        else:
            assert np.array_equal(bits(output[sample]), bits(plain[sample]))


@pytest.mark.slow
def test_a_compiled_model_is_refused_with_a_word_on_what_to_do(tmp_path):
    compiled, (x, time) = torch.compile(nacre.NAC(WIDTH, 2), backend="eager"), sequences()
    with pytest.raises(ValueError, match="a compiled model cannot be watched"):
        record(compiled, x, time, out=tmp_path / "look")
    assert list(tmp_path.iterdir()) == []


# Recordings that are none, or damaged


def test_a_directory_that_holds_no_recording_is_refused(tmp_path):
    for place in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(FileNotFoundError, match="is no recording; make one with nacre.inspect.record"):
            Recording(place)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "look"
    torch.manual_seed(0)
    record(nacre.NAC(8, 2), *sequences(1, 9, 8), out=path)
    return path


def _edit(path, change):
    data = json.loads(path.read_text())
    change(data["attributes"])
    path.write_text(json.dumps(data))


def test_a_damaged_recording_is_refused(whole, tmp_path):
    damages = [
        lambda store: (store / "zarr.json").unlink(),
        lambda store: (store / "zarr.json").write_text("{"),
        lambda store: (store / "zarr.json").write_text(""),
        lambda store: shutil.rmtree(store / "layers"),
        lambda store: _edit(store / "zarr.json", lambda a: a.pop("about")),
        lambda store: _edit(store / "zarr.json", lambda a: a.pop("length")),
        lambda store: _edit(store / "zarr.json", lambda a: a["about"].update(colour="red")),
        lambda store: _edit(store / "zarr.json", lambda a: a.update(layers=["psi"])),
        lambda store: _edit(store / "layers" / "0-nac" / "zarr.json", lambda a: a.pop("heads")),
        lambda store: _edit(store / "layers" / "0-nac" / "zarr.json", lambda a: a.update(neurons=[1])),
    ]
    for i, damage in enumerate(damages):
        shutil.copytree(whole, tmp_path / f"damage {i}")
        damage(tmp_path / f"damage {i}" / "trace.zarr")
        with pytest.raises(ValueError, match=rf"damage {i} is damaged .*; record it again"):
            Recording(tmp_path / f"damage {i}")


def test_a_recording_of_another_format_is_refused(whole, tmp_path):
    shutil.copytree(whole, tmp_path / "look")
    _edit(tmp_path / "look" / "trace.zarr" / "zarr.json", lambda a: a.update(format=2))
    with pytest.raises(ValueError, match="has format 2, this nacre reads 1"):
        Recording(tmp_path / "look")
