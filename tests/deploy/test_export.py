"""`nacre.export`: files whose answers are those of PyTorch, and what is refused before anything is written."""

import json

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

import nacre
from nacre.data.dataset import Kind
from nacre.deploy.compare import compare_windows
from nacre.deploy.forms import StepForm
from nacre.deploy.signature import draw, signature
from support.cases import PLUS, some
from support.models import make

LAYERS = {
    "plus": lambda: nacre.NAC(8, 2, **PLUS),
    "exact selection, euler": lambda: nacre.NAC(8, 2, selection="exact", mode="euler", backbone_units=12),
    "two layers": lambda: nacre.NACEncoder(nacre.NACConfig(d_model=8, num_heads=2, backbone_units=12), 2),
    "match, causal": lambda: nacre.NAC(8, 2, match="both", reach=20, causal=True, backbone_units=12),
    **{name: (lambda name=name: make(name)) for name in nacre.list_models()},
}
STREAMS = {
    "nac": lambda: make("nac", causal=True),
    "nac-plus": lambda: make("nac-plus", causal=True),
    "encoder": lambda: nacre.NACEncoder(
        nacre.NACConfig(d_model=8, num_heads=2, d_input=5, causal=True, backbone_units=12), 2
    ),
    **{
        name: (lambda name=name: make(name))
        for name in nacre.list_models()
        if nacre.model_info(name).kind == "CT-RNN"
    },
}
NOT_YET = ("cta", "contiformer")  # docs/deploy.md says so


def network(model, kind, **options):
    torch.manual_seed(2)
    net = nacre.TaskNetwork(model, kind, 3, 4, d_model=8, num_heads=2, time_scale=2.0, **options)
    net.shift.normal_()
    net.scale.uniform_(0.5, 3)
    if kind.has_numbers:
        net.y_shift.normal_()
        net.y_scale.uniform_(0.5, 2)
    return net


IMAGE = {"size": (16, 16), "conv": [(4, 3, 2)]}
NETWORKS = {
    "classes, streamed": (lambda: network("cfc-fc", Kind.CLASSIFICATION), True),
    "forecast": (
        lambda: network("sdpa", Kind.FORECASTING, relative_to=[0], window=(6, 0.5), one_hot=[1], dense=[5]),
        False,
    ),
    "each step, streamed": (
        lambda: network("nac", Kind.STEP_REGRESSION, depth=2, relative_to=[1], options={"causal": True}),
        True,
    ),
    "flags": (lambda: network("nac-plus", Kind.CLASSIFICATION, missing="flags"), False),
    "last": (lambda: network("ct-rnn", Kind.STEP_CLASSIFICATION, missing="last"), False),
    "events": (lambda: network("sdpa", Kind.MULTI_LABEL, missing="events"), False),
    "convolution, quantiles": (
        lambda: network("sdpa", Kind.REGRESSION, conv=[(4, 3, 1)], quantiles=[0.1, 0.5]),
        False,
    ),
    "images, streamed": (lambda: network("cfc-fc", Kind.STEP_REGRESSION, image=IMAGE), True),
}


def session(path):
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def within(found):
    """Few answers may have chosen other keys where two match equally well."""
    assert found.apart <= 0.01 * found.answers
    assert found.apart > 0 or found.largest < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("name", some([n for n in LAYERS if n not in NOT_YET], "plus"))
def test_a_window_equals_pytorch(name, tmp_path):
    module = LAYERS[name]()
    found = nacre.export(module, tmp_path / "m.onnx")
    within(found.difference)
    assert module.training  # as it was
    onnx.checker.check_model(str(found.path), full_check=True)
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]


@pytest.mark.slow
@pytest.mark.parametrize("name", some(STREAMS))
def test_a_stream_equals_pytorch(name, tmp_path):
    found = nacre.export(STREAMS[name](), tmp_path / "m.onnx", stream=True, max_len=130)
    within(found.difference)
    within(found.step_difference)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m-step.onnx", "m.onnx"]


@pytest.mark.slow
@pytest.mark.parametrize("name", some(NETWORKS))
def test_a_network_equals_pytorch(name, tmp_path):
    make_network, stream = NETWORKS[name]
    net = make_network()
    found = nacre.export(net, tmp_path / "m.onnx", stream=stream, max_len=130)
    within(found.difference)
    run = session(found.path)
    inputs = draw(net.eval(), 2, 11, seed=5)
    y, *rest = run.run(None, {port.name: inputs[port.name].numpy() for port in run.get_inputs()})
    with torch.no_grad():
        wanted = net(inputs["x"], inputs["time"], inputs["key_padding_mask"], query_only=inputs.get("query_only"))
    padding = inputs["key_padding_mask"].numpy()
    here = ~padding if net.kind.each_step else np.ones(2, bool)
    np.testing.assert_allclose(y[here], wanted.numpy()[here], rtol=1e-4, atol=1e-4)
    if not net.kind.has_numbers:
        probability = wanted.softmax(-1) if net.kind.has_classes else wanted.sigmoid()
        np.testing.assert_allclose(rest[0][here], probability.numpy()[here], rtol=1e-4, atol=1e-5)
    facts = json.loads(run.get_modelmeta().custom_metadata_map["nacre"])
    assert facts["kind"] == str(net.kind)
    np.testing.assert_allclose(facts["scaler"]["scale"], net.scale.numpy(), rtol=1e-6)


class TestRefused:
    def test_other_modules(self, tmp_path):
        with pytest.raises(ValueError, match=r"must be a NAC.*got Linear; export other modules with torch.onnx"):
            nacre.export(torch.nn.Linear(2, 2), tmp_path / "m.onnx")

    def test_half_precision(self, tmp_path):
        with pytest.raises(ValueError, match=r"single precision, got torch.bfloat16.*module.cpu\(\).float\(\)"):
            nacre.export(make("sdpa").bfloat16(), tmp_path / "m.onnx")

    def test_another_ending(self, tmp_path):
        with pytest.raises(ValueError, match=r"path must end in .onnx"):
            nacre.export(make("sdpa"), tmp_path / "m.pt")

    @pytest.mark.parametrize(
        ("module", "message"),
        [
            (lambda: make("sdpa"), "SDPA has no step; export its window alone"),
            (lambda: make("nac"), r"not causal.*train it with causal=True"),
            (
                lambda: network("cfc-fc", Kind.FORECASTING, relative_to=[0]),
                "its features are relative to the last row",
            ),
            (lambda: network("cfc-fc", Kind.CLASSIFICATION, missing="flags"), "it fills missing values"),
            (lambda: network("cfc-fc", Kind.CLASSIFICATION, conv=[(4, 3, 1)]), "convolutions along time"),
        ],
    )
    def test_streams_of_what_has_no_step(self, module, message, tmp_path):
        with pytest.raises(ValueError, match=message):
            nacre.export(module(), tmp_path / "m.onnx", stream=True)
        assert not list(tmp_path.iterdir())

    def test_convolutions_with_a_stride(self, tmp_path):
        with pytest.raises(ValueError, match="convolutions have a stride.*stride 1"):
            nacre.export(network("sdpa", Kind.CLASSIFICATION, conv=[(4, 3, 2)]), tmp_path / "m.onnx")

    def test_columns_of_an_image(self, tmp_path):
        net = network("sdpa", Kind.CLASSIFICATION, image=IMAGE | {"tokens": "columns"})
        with pytest.raises(ValueError, match="columns of one image"):
            nacre.export(net, tmp_path / "m.onnx")

    @pytest.mark.deep
    def test_a_model_that_torch_cannot_follow_is_named(self, tmp_path, monkeypatch):
        net = network("sdpa", Kind.CLASSIFICATION)
        monkeypatch.setattr(type(net), "_read_out", lambda self, states, padding: states[:, : len(states)].sum(1))
        with pytest.raises(ValueError, match=r"SDPA \(layer.blocks.0.attention\) cannot be written as ONNX"):
            nacre.export(net, tmp_path / "m.onnx")
        assert not list(tmp_path.iterdir())

    def test_wrong_answers_are_not_kept(self, tmp_path, monkeypatch):
        module = make("sdpa").eval()

        class Off:
            def run(self, inputs):
                return {"y": module(**inputs) + 0.01}

        with pytest.raises(ValueError, match=r"differ from PyTorch's by up to 0.01 at batch 1 and length 1"):
            compare_windows(module, Off())


class OffAt:
    """A session whose answers to the first sequence are wrong at some first steps."""

    def __init__(self, module, steps):
        self.module, self.steps = module, steps

    def run(self, inputs):
        y = self.module(**inputs)
        y[0, : self.steps if y.shape[1] > 100 else 0] += 1
        return {"y": y}


def test_few_answers_of_many_may_be_apart():
    module = make("sdpa").eval().requires_grad_(False)
    assert compare_windows(module, OffAt(module, 1)).apart == 3  # one of each batch size
    with pytest.raises(ValueError, match="at batch 1 and length 130, in 9 of 130 answers"):
        compare_windows(module, OffAt(module, 9))


def test_what_follows_from_a_module():
    assert signature(make("sdpa")).inputs == ("x", "time", "key_padding_mask")
    found = signature(network("sdpa", Kind.STEP_CLASSIFICATION))
    assert found.inputs[-1] == "query_only"
    assert found.outputs == ("y", "probability")
    assert draw(make("sdpa"), 2, 7, 0)["x"].shape == (2, 7, 5)


def test_states_are_those_of_the_layers():
    net = network("nac", Kind.STEP_REGRESSION, depth=2, options={"causal": True})
    state = StepForm(net, max_len=70).empty(3)
    assert {"layer0_key", "layer1_key", "origin", "steps", "total"} <= set(state)
    assert state["layer0_key"].shape == (3, 2, 2, 64, 4)
    assert not any("limit" in name or "owner" in name or "offered" in name for name in state)
