"""What the viewer answers to lesions is what the lesioned model says."""

import numpy as np
import pytest
import torch

import nacre
from nacre.inspect import Lesion, lesioned, record
from support.viewer import STEPS, ask, one_layer, post, sequences, serving, two_layers

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    folder = tmp_path_factory.mktemp("seen")
    layer = one_layer(folder / "layer")
    with two_layers(folder / "two") as two, serving(layer) as port, serving(two) as other:
        yield {"layer": (layer, port), "two": (two, other)}


LESIONS = [
    [{"group": "inter", "index": 0}],
    [{"group": "command", "index": 1, "head": 1}],
    [{"group": "motor"}],
    [{"group": "query", "index": 2, "head": 0}, {"group": "value", "index": 1}],
    [{"group": "key", "head": 1}, {"group": "inter", "index": 3}],
]


def as_lesion(data, layer=None):
    target = data.get("target")
    return Lesion(
        data["group"],
        data.get("index"),
        data.get("head"),
        (target["group"], target["index"]) if target else None,
        layer,
    )


def gates_by_hand(net, x, time, names):
    """Means [T, H, gates] over keys by attention weight, and how many keys that is."""
    _, trace = net(x, time=time, return_trace=True)
    weights = trace.weights.masked_fill(~trace.valid, 0)
    columns = [(weights * getattr(trace, name)).sum(-1) for name in names if name != "keys"]
    entropy = -(weights * weights.clamp(min=1e-30).log()).sum(-1)
    return torch.stack([*columns, entropy.exp()], -1)[0].transpose(0, 1).detach()


@pytest.mark.parametrize("lesions", LESIONS, ids=str)
def test_a_lesion_answers_what_the_lesioned_model_says(seen, lesions):
    example, port = seen["layer"]
    quiet = lesioned(example.model, [as_lesion(one) for one in lesions])
    names = example.recording.layers["nac"].gates
    for sample, head, start, stop in ((0, 0, 0, STEPS), (2, 1, 4, 11)):
        x, time = example.x[sample : sample + 1], example.time[sample : sample + 1]
        reply = post(port, lesions, f"sample={sample}&head={head}&start={start}&stop={stop}")
        assert reply.status == 200
        got = reply.data
        assert (got["step"], got["answer"]) == (list(range(start, stop)), None)
        want = quiet(x, time=time)[0, start:stop].detach()
        gates = gates_by_hand(quiet, x, time, names)[start:stop, head]
        for columns, rows in ((got["output"], want), (got["gates"], gates)):
            assert len(columns) == rows.shape[1]
            for i, column in enumerate(columns):
                for part in ("low", "high", "mean"):
                    np.testing.assert_allclose(column[part], rows[:, i], atol=2e-5)
    whole = example.model(example.x, time=example.time)[0].detach()
    assert not np.allclose(np.array([column["mean"] for column in post(port, lesions).data["output"]]).T, whole)


def test_a_cut_synapse_is_cut_and_no_other(seen):
    example, port = seen["layer"]
    layer, circuit = example.recording.layers["nac"], ask(port, "/api/circuit?head=1").data
    for i in (0, len(circuit["source"]) // 2):
        (group, index), (to, place) = (layer.neurons[circuit[end][i]] for end in ("source", "target"))
        lesion = [{"group": group, "index": index, "head": 1, "target": {"group": to, "index": place}}]
        quiet = lesioned(example.model, [as_lesion(lesion[0])])
        want = quiet(example.x[:1], time=example.time[:1])[0].detach()
        got = np.array([column["mean"] for column in post(port, lesion).data["output"]]).T
        np.testing.assert_allclose(got, want, atol=2e-5)


def test_a_lesion_is_one_of_the_layer_that_was_asked_for(seen):
    example, port = seen["two"]
    for number, name in enumerate(("first", "second", "first")):
        quiet = lesioned(example.model, [Lesion("inter", 1, layer=name)])
        want = quiet(example.x[1:], example.time[1:])[0].detach()
        reply = post(port, [{"group": "inter", "index": 1}], f"layer={number}&sample=1")
        assert reply.status == 200, reply.body
        np.testing.assert_allclose(np.array([c["mean"] for c in reply.data["output"]]).T, want, atol=2e-5)
        assert len(reply.data["gates"]) == len(example.recording.layers[name].gates)


def test_a_lesion_of_a_recording_without_stamps_is_that_of_the_model_without_stamps(tmp_path):
    torch.manual_seed(3)
    model, x = nacre.NAC(8, 2).eval(), sequences(1)[0]
    with serving(record(model, x, out=tmp_path / "plain")) as port:
        got = post(port, [{"group": "inter", "index": 0}]).data["output"]
    want = lesioned(model, [Lesion("inter", 0)])(x)[0].detach()
    np.testing.assert_allclose(np.array([c["mean"] for c in got]).T, want, atol=2e-5)


def test_lesions_have_as_many_points_as_are_asked_for(seen):
    _, port = seen["layer"]
    fine = post(port, [{"group": "inter"}]).data
    coarse = post(port, [{"group": "inter"}], "points=5").data
    assert coarse["step"] == list(range(0, STEPS, 8))
    for few, many in zip(coarse["output"] + coarse["gates"], fine["output"] + fine["gates"], strict=True):
        blocks = np.array(many["mean"]).reshape(5, 8)
        np.testing.assert_allclose(few["low"], blocks.min(1), atol=1e-5)
        np.testing.assert_allclose(few["high"], blocks.max(1), atol=1e-5)
        np.testing.assert_allclose(few["mean"], blocks.mean(1), atol=1e-5)


def test_the_same_lesion_has_gates_of_the_layer_and_answers_of_the_run_that_were_asked_for(seen, tmp_path):
    _, port = seen["two"]
    first, again = (post(port, [{"group": "inter", "index": 1}], f"layer={layer}").data for layer in (0, 2))
    assert first["output"] == again["output"]
    assert first["gates"] != again["gates"]
    torch.manual_seed(9)
    x, time = sequences()
    other = record(nacre.NAC(8, 2).eval(), x, time, out=tmp_path / "other")
    with serving(seen["layer"][0], other) as port:
        one, two = (post(port, [{"group": "inter", "index": 1}], f"run={run}").data for run in (0, 1))
    assert one["output"] != two["output"]


def test_a_synapse_is_cut_in_the_layer_that_was_asked_for(seen):
    example, port = seen["two"]
    circuit, layer = ask(port, "/api/circuit?layer=1").data, example.recording.layers["second"]
    (group, index), target = (layer.neurons[circuit[end][0]] for end in ("source", "target"))
    quiet = lesioned(example.model, [Lesion(group, index, target=target, layer="second")])
    lesion = {"group": group, "index": index, "target": {"group": target[0], "index": target[1]}}
    got = post(port, [lesion], "layer=1").data["output"]
    want = quiet(example.x[:1], example.time[:1])[0].detach()
    np.testing.assert_allclose(np.array([column["mean"] for column in got]).T, want, atol=2e-5)
