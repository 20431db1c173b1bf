"""`nacre-runtime`: answers of a run without PyTorch, and clear words for bad input."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper

from nacre.train.run import Run
from nacre_runtime import Model, Stream
from support.pages import blocks
from support.train import nacre, write_table

ROOT = Path(__file__).parents[2]
FACTS = {
    "format": 1,
    "step": [2],
    "dtype": "float32",
    "missing": False,
    "inputs": ["x", "time", "key_padding_mask"],
    "features": ["speed", "load"],
}


def written(path, nodes, inputs, outputs, facts):
    """A graph as nacre would export it."""
    ports = [
        [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in side]
        for side in (inputs, outputs)
    ]
    graph = helper.make_graph(nodes, "small", *ports)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    if facts is not None:
        helper.set_model_props(model, {"nacre": json.dumps(facts)})
    onnx.save(model, path)
    return path


def window(folder, facts=FACTS, name="sum.onnx"):
    """The sums of all steps of a sequence."""
    nodes = [
        helper.make_node("Constant", [], ["axis"], value_ints=[1]),
        helper.make_node("ReduceSum", ["x", "axis"], ["y"], keepdims=0),
    ]
    inputs = [("x", TensorProto.FLOAT, ["batch", "length", 2]), ("time", TensorProto.DOUBLE, ["batch", "length"])]
    facts = facts and {"form": "window", **facts}
    return written(folder / name, nodes, inputs, [("y", TensorProto.FLOAT, ["batch", 2])], facts)


def step(folder, **more):
    """The sums so far."""
    nodes = [
        helper.make_node("Add", ["x", "total"], ["y"]),
        helper.make_node("Identity", ["y"], ["next_total"]),
    ]
    row = ["batch", 2]
    inputs = [(name, TensorProto.FLOAT, row) for name in ("x", "total")]
    outputs = [(name, TensorProto.FLOAT, row) for name in ("y", "next_total")]
    facts = {**FACTS, "form": "step", "state": {"total": ["float32", [2]]}, "max_len": None, **more}
    return written(folder / "sum-step.onnx", nodes, inputs, outputs, facts)


X = np.arange(12.0).reshape(2, 3, 2)
TIME = np.array([[0.0, 1.0, 2.0], [0.0, 0.5, 0.5]])


def test_a_batch_a_sequence_and_a_list(tmp_path):
    model = Model.load(window(tmp_path))
    np.testing.assert_allclose(model.predict(X, TIME), X.sum(1))
    np.testing.assert_allclose(model.predict(X[0].tolist(), [0, 1, 2]), X[0].sum(0))
    first, second = model.predict([X[0], X[1, :1]], [TIME[0], TIME[1, :1]])
    np.testing.assert_allclose([first, second], [X[0].sum(0), X[1, 0]])
    padding = np.array([[False] * 3, [False, True, True]])
    poisoned = np.where(padding[..., None], np.nan, X)
    np.testing.assert_allclose(model.predict(poisoned, TIME, key_padding_mask=padding)[1], X[1, 0])


def test_a_stream_remembers_and_forgets(tmp_path):
    stream = Stream.load(step(tmp_path), streams=2)
    for at, (x, time) in enumerate(zip(X.swapaxes(0, 1), TIME.T, strict=True)):
        np.testing.assert_allclose(stream.push(x, time), X[:, : at + 1].sum(1))
    stream.reset(1)
    np.testing.assert_allclose(stream.push(X[:, 0], [3.0, 0.0]), [X[0].sum(0) + X[0, 0], X[1, 0]])
    stream.reset()
    np.testing.assert_allclose(stream.push(X[:, 0], 0.0), X[:, 0])


@pytest.mark.parametrize(
    ("x", "time", "message"),
    [
        (X[..., :1], TIME, r"x must have shape \[steps, 2\].*got \(2, 3, 1\); the features are speed, load"),
        (X[:, :0], TIME[:, :0], r"at least one row and one step"),
        (np.where(X == 9, np.nan, X), TIME, r"NaN or infinity at row 1, step 1; this network was trained without"),
        (X, TIME[:, :2], r"time must have shape \(2, 3\)"),
        (X, TIME[:, ::-1], r"time must not go back, got 1.0 after 2.0 at row 0, step 1; sort"),
        (X, TIME + np.inf, r"time must be finite, got inf at row 0, step 0"),
        ("abc", TIME, r"x must be numbers of shape .*got str"),
        (X, None, r"time must (be finite|have shape)"),
        ([X[0]], TIME, r"time must be a list of 1 arrays"),
    ],
)
def test_bad_windows(x, time, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        Model.load(window(tmp_path)).predict(x, time)


def test_bad_masks(tmp_path):
    model = Model.load(window(tmp_path))
    with pytest.raises(ValueError, match=r"key_padding_mask must be bool of shape \(2, 3\), got int64"):
        model.predict(X, TIME, key_padding_mask=np.zeros((2, 3), int))
    with pytest.raises(ValueError, match="query_only is for networks that answer each step"):
        model.predict(X, TIME, query_only=np.ones((2, 3), bool))


def test_missing_values_are_welcome_where_training_had_them(tmp_path):
    model = Model.load(window(tmp_path, {**FACTS, "missing": True}))
    assert np.isnan(model.predict(np.where(X == 9, np.nan, X), TIME)).any()
    with pytest.raises(ValueError, match="NaN or infinity at row 1, step 1$"):
        model.predict(np.where(X == 9, np.inf, X), TIME)


@pytest.mark.parametrize(
    ("x", "time", "message"),
    [
        (X[0, 0], 1.0, "x is a step of 1 streams, but this Stream has 2"),
        (X[:, 0, :1], 1.0, r"x must have shape \[2\] or \[2, 2\], got \(2, 1\)"),
        (X[:, 0] + np.nan, 1.0, "NaN or infinity at row 0"),
        (X[:, 0], [1.0, -0.5], "time goes back in stream 1: -0.5 after 0.0; reset it"),
        (X[:, 0], np.nan, "time must be finite"),
        (X[:, 0], [1.0, 2.0, 3.0], r"time must be one number, or have shape \(2,\)"),
    ],
)
def test_a_step_that_is_refused_changes_nothing(x, time, message, tmp_path):
    stream = Stream.load(step(tmp_path), streams=2)
    stream.push(X[:, 0], 0.0)
    with pytest.raises(ValueError, match=message):
        stream.push(x, time)
    np.testing.assert_allclose(stream.push(X[:, 1], 0.0), X[:, :2].sum(1))


def test_a_full_memory(tmp_path):
    stream = Stream.load(step(tmp_path, max_len=1))
    stream.push(X[0, 0], 0.0)
    with pytest.raises(ValueError, match="stream 0 has 1 steps, which is all that it remembers; reset it"):
        stream.push(X[0, 1], 1.0)


class TestFiles:
    def test_none(self, tmp_path):
        with pytest.raises(FileNotFoundError, match="is no file; nacre export writes one"):
            Model.load(tmp_path / "no.onnx")

    def test_damaged(self, tmp_path):
        path = window(tmp_path)
        for data in (b"", b"not onnx", path.read_bytes()[:-40]):
            path.write_bytes(data)
            with pytest.raises(ValueError, match="is damaged, or no ONNX file|not one that nacre exported"):
                Model.load(path)

    def test_of_others(self, tmp_path):
        with pytest.raises(ValueError, match="is an ONNX file, but not one that nacre exported"):
            Model.load(window(tmp_path, facts=None))

    def test_of_a_newer_nacre(self, tmp_path):
        with pytest.raises(ValueError, match="has format 2, this nacre-runtime reads 1; install a newer one"):
            Model.load(window(tmp_path, {**FACTS, "format": 2}))

    def test_of_the_other_form(self, tmp_path):
        with pytest.raises(ValueError, match=r"is for a step, not for a window; use Stream.load"):
            Model.load(step(tmp_path))
        with pytest.raises(ValueError, match=r"is for a window, not for a step; use Model.load"):
            Stream.load(window(tmp_path))


WITHOUT_TORCH = """
import sys
class Nowhere:
    def find_spec(self, name, *rest):
        if name.partition(".")[0] in ("torch", "nacre", "onnx", "onnxscript"):
            raise ImportError(name)
sys.meta_path.insert(0, Nowhere())
import numpy as np
x, time = np.load("in.npz")["x"], np.load("in.npz")["time"]
{page}
np.savez("out.npz", window=answer, stream=newest, classes=model.classes)
"""


@pytest.mark.slow
def test_a_run_is_exported_and_predicts_where_pytorch_cannot_be_imported(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    recipe = write_table(tmp_path, steps=4)
    assert (
        nacre(monkeypatch, "train", recipe, "-m", "cfc-fc", "--profile", "quick", "--folds", 1, "--no-controls")
        == 0
    )
    run = "runs/waves/cfc-fc/fold0-seed0"
    assert nacre(monkeypatch, "export", run, "--stream", "--licence", "CC0-1.0") == 0
    assert "wrote model-step.onnx" in capsys.readouterr().out
    x, time = np.random.default_rng(0).normal(size=(9, 1)), np.linspace(0, 4, 9)
    np.savez("in.npz", x=x, time=time)
    code = WITHOUT_TORCH.replace("{page}", blocks("deploy.md", "text")[0])
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": str(ROOT / "runtime" / "src")})
    found = np.load("out.npz")
    network = Run.open(Path(run)).network()
    with torch.no_grad():
        wanted = network(torch.from_numpy(x).float()[None], torch.from_numpy(time)[None]).softmax(-1)[0].numpy()
    np.testing.assert_allclose(found["window"], wanted, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found["stream"], wanted, rtol=1e-4, atol=1e-6)
    assert found["classes"].tolist() == ["fast", "slow"]
    facts = Model.load("model.onnx").facts
    assert (facts["licence"], facts["features"], facts["task"]) == ("CC0-1.0", ["value"], "waves")
    assert nacre(monkeypatch, "export", run, "--out", "model.pt") == 2
    assert "path must end in .onnx" in capsys.readouterr().err


ORT_WEB = """
class Tensor { constructor(type, data, dims) { Object.assign(this, { type, data, dims }); } }
const total = { name: "total", type: "float32", shape: ["batch", 2] };
const run = async ({ x, time, total }) => {
  const y = new Tensor("float32", total.data.map((sum, i) => sum + x.data[i] * time.data[0]), x.dims);
  return { y, next_total: y };
};
const session = { inputMetadata: [{ name: "x" }, { name: "time" }, total], run };
module.exports = { Tensor, InferenceSession: { create: async (data) => data.length && session } };
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_the_example_in_javascript_keeps_the_state(tmp_path):
    """With a stand-in for onnxruntime-web, which is not here."""
    package = tmp_path / "node_modules" / "onnxruntime-web"
    package.mkdir(parents=True)
    (package / "index.js").write_text(ORT_WEB)
    (tmp_path / "steps.json").write_text("[[1, 2, 3], [2, 10, 20]]")
    step(tmp_path)
    example = ROOT / "examples" / "stream.mjs"
    said = subprocess.run(
        ["node", example, "sum-step.onnx", "steps.json"], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert [json.loads(line) for line in said.stdout.splitlines()] == [[2, 3], [22, 43]]


def test_the_package_is_small_and_needs_little():
    sources = list((ROOT / "runtime" / "src").rglob("*.py"))
    assert sum(len(path.read_text().splitlines()) for path in sources) < 300
