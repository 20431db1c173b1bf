"""A study of lesions says what each lesion alone would do."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import nacre
from nacre import NAC
from nacre.data.dataset import UNSCORED
from nacre.inspect import Lesion, Recording, lesioned, record
from nacre.inspect.analysis.lesion_study import all_lesions, lesion_study
from nacre.inspect.analysis.rerun import Rerun, metric_of_samples
from nacre.inspect.recording.description import Description
from nacre.inspect.recording.outputs import outputs_of
from nacre.inspect.recording.run import record_run
from nacre.inspect.recording.writer import RecordingWriter
from nacre.io import saveable
from nacre.native import library
from nacre.tasks.recipe import load_recipe, to_toml
from nacre.tasks.recipe_sections import SplitRecipe
from support.drive import episode, write_episode
from support.drive import write_run as write_drive_run

LESIONS = [
    Lesion("motor"),
    Lesion("inter", head=1),
    Lesion("value", 2, head=0),
    Lesion("inter", 3, head=1),
    Lesion("key", 1),
    Lesion("inter", 3, head=0),
    Lesion("query", 0, head=1),
]


def restless(layer):
    """Larger weights: silence of a neuron is easily seen then."""
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter *= 2
    return layer.eval()


def checked(recording, lesions, study, steps=None):
    """Hold a study against lesioned models, one at a time."""
    reruns = [Rerun(recording, sample, steps) for sample in range(recording.samples)]
    intact, before = metric_of_samples(reruns)
    spread = torch.cat(before).std(0, correction=0)
    assert study.intact == pytest.approx(intact, nan_ok=True)
    assert len(study.rows) == len(lesions)
    for lesion, row in zip(lesions, study.rows, strict=True):
        assert replace(row.lesion, layer=lesion.layer) == lesion
        metric, after = metric_of_samples(reruns, [lesion])
        change = ((torch.cat(after) - torch.cat(before)).abs() / spread).mean()
        assert row.change == pytest.approx(change.item(), rel=1e-4, abs=1e-7), str(lesion)
        assert row.metric == pytest.approx(metric, nan_ok=True, rel=1e-4), str(lesion)
        assert row.difference == pytest.approx(metric - intact, nan_ok=True, rel=1e-3, abs=1e-6)


def by_hand(path, network, truth, lengths=(14, 9), **about):
    """A recording of a task network, without its neurons."""
    x, time = torch.randn(len(lengths), max(lengths), 2), torch.rand(len(lengths), max(lengths)).double().cumsum(1)
    with RecordingWriter(path, len(lengths), network) as writer:
        curve = [0] * len(lengths)
        for i, n in enumerate(lengths):
            y = outputs_of(network, x[i : i + 1, :n], time[i : i + 1, :n], None).curve[0]
            curve[i] = len(y)
            writer.put_inputs(i, x[i, :n], time[i, :n], max(lengths))
            writer.put("output", i, 0, y.numpy(), max(lengths))
            writer.put("truth", i, 0, truth[i], max(map(len, truth)))
        names = tuple(f"sample {i}" for i in range(len(lengths)))
        writer.finish(Description(name="by hand", samples=names, **about), {"x": lengths, "output": curve})
    return Recording(path)


def task_network(kind, outputs, **options):
    network = nacre.TaskNetwork("nac", kind, 2, outputs, d_model=8, num_heads=2, **options)
    restless(network.layer.blocks[0].attention)
    return network.eval()


CASES = [(False, False, False), (True, False, True), (False, True, True), (True, True, False)]


@pytest.mark.slow
@pytest.mark.parametrize(("shared", "padded", "kernels"), CASES)
def test_a_layer_by_itself(tmp_path, shared, padded, kernels, monkeypatch):
    if not kernels:
        monkeypatch.setattr(library, "runs", lambda *tensors: False)
    layer = restless(NAC(16, 2, share_backbone=shared, bias=not shared))
    padding = torch.arange(20) >= torch.tensor([[20], [11]]) if padded else None
    recording = record(layer, torch.randn(2, 20, 16), torch.rand(2, 20).cumsum(1), padding, out=tmp_path / "r")
    study = lesion_study(recording, LESIONS)
    assert (study.metric, study.better) == ("", "")
    assert np.isnan([study.intact, study.rows[0].metric, study.rows[0].difference]).all()
    if padded:  # answers to padding are zeros, with and without a lesion
        reruns = [Rerun(recording, sample) for sample in range(2)]
        before, after = (metric_of_samples(reruns, some)[1] for some in ([], LESIONS[:1]))
        before, after = (torch.cat([y[0], y[1][:11]]) for y in (before, after))
        change = ((after - before).abs() / before.std(0, correction=0)).mean().item()
        assert study.rows[0].change == pytest.approx(change, rel=1e-4)
    else:
        checked(recording, LESIONS, study)
    # In a shared circuit neuron 3 is the same in both heads; without a bias, motor neurons need the inter neurons.
    assert len({row.change for row in study.rows}) == len(LESIONS) - 2 * shared


@pytest.mark.slow
def test_numbers_of_steps(tmp_path):
    network = task_network("step-regression", 2, dense=[4], conv=[(4, 3, 1)])
    truth = [np.random.default_rng(0).normal(size=(n, 2)).astype(np.float32) for n in (14, 9)]
    truth[0][3] = np.nan
    about = {"outputs": ("a", "b"), "metric": "mse", "better": "lower", "unit": (1.0, 2.0)}
    recording = by_hand(tmp_path / "r", network, truth, **about)
    told = []
    study = lesion_study(recording, LESIONS, progress=lambda done, of: told.append((done, of)))
    checked(recording, LESIONS, study)
    assert told == [(i + 1, len(LESIONS)) for i in range(len(LESIONS))]
    assert (study.metric, study.better) == ("mse", "lower")
    assert study.rows[0].difference != 0
    short = lesion_study(recording, LESIONS[:2], samples=1, steps=6)
    assert short.intact == pytest.approx(metric_of_samples([Rerun(recording, 0, 6)])[0])
    assert short.intact != study.intact


@pytest.mark.slow
def test_one_class_of_a_sample(tmp_path):
    network = task_network("classification", 3, conv=[(4, 3, 2)])
    truth = [np.array([1]), np.array([UNSCORED])]
    about = {"outputs": ("a", "b", "c"), "classes": True, "once": True, "metric": "accuracy", "better": "higher"}
    recording = by_hand(tmp_path / "r", network, truth, **about)
    study = lesion_study(recording, LESIONS)
    checked(recording, LESIONS, study)
    assert study.intact in (0, 100)


@pytest.mark.slow
def test_padding_adds_nothing_to_the_answer_to_a_sample(tmp_path):
    network = task_network("classification", 3)
    with torch.no_grad():
        network.layer.blocks[0].attention.out_proj.bias += 3  # which padding would show
    padding = torch.arange(12) >= torch.tensor([[12], [5], [8]])
    time = torch.rand(3, 12).double().cumsum(1)
    recording = record(network, torch.randn(3, 12, 2), time, padding, out=tmp_path / "r")
    checked(recording, LESIONS, lesion_study(recording, LESIONS))


@pytest.mark.slow
def test_a_drive(tmp_path):
    for seed in range(3):
        write_episode(tmp_path / "carracing", replace(episode(seed, 9), label=np.arange(9) % 5))
    run = write_drive_run(tmp_path / "run")
    recipe = replace(load_recipe(run / "recipe.toml"), split=SplitRecipe("group", 3))
    (run / "recipe.toml").write_text(to_toml(recipe))
    recording = record_run(run, 1, data_dir=tmp_path)
    lesions = [Lesion("value"), Lesion("value", 1, head=0), Lesion("motor", head=1)]
    checked(recording, lesions, lesion_study(recording, lesions))


@pytest.mark.slow
def test_layers_of_a_stack(tmp_path):
    encoder = nacre.NACEncoder(nacre.NACConfig(d_model=16, num_heads=2), num_layers=2)
    recording = record(encoder, torch.randn(1, 20, 16), out=tmp_path / "r")
    first, second = "layers.0.attention", "layers.1.attention"
    lesions = [replace(lesion, layer=name) for lesion in LESIONS[:4] for name in (second, first)]
    checked(recording, lesions, lesion_study(recording, lesions))
    study = lesion_study(recording, LESIONS[:2], layer=second)
    assert [row.lesion.layer for row in study.rows] == [second] * 2
    with pytest.raises(ValueError, match="layer must name a NAC layer, got None; there are layers.0"):
        lesion_study(recording, LESIONS[:2])
    with pytest.raises(ValueError, match="layer must name a NAC layer, got 'x'"):
        lesion_study(recording, layer="x")


@saveable("nac twice in a test")
class Twice(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.nac = NAC(8, 2)

    def forward(self, x):
        return self.nac(x + self.nac(x))

    def to_config(self):
        return {}

    @classmethod
    def from_config(cls, data):
        return cls()


@pytest.mark.slow
def test_a_layer_that_is_called_twice(tmp_path):
    recording = record(restless(Twice()), torch.randn(1, 12, 8), out=tmp_path / "r")
    assert set(recording.layers) == {"nac", "nac#2"}
    lesions = [Lesion("value", head=0), Lesion("inter", head=1)]
    checked(recording, lesions, lesion_study(recording, lesions))


@pytest.mark.slow
def test_every_lesion_of_a_layer(tmp_path):
    layer = restless(NAC(4, 2, wiring="random", backbone_units=6, clock=2))  # without command neurons
    with torch.no_grad():  # nobody hears the first neuron of head 1
        table, unheard = layer.backbone.weights.recurrent_weight, layer.backbone.wiring.group("inter")[0]
        table.weight[1, table.index // table.shape[1] == unheard] = 0
    recording = record(layer, torch.randn(1, 10, 4), out=tmp_path / "r")
    study = lesion_study(recording)
    lesions = [row.lesion for row in study.rows]
    sizes = recording.layers["nac"].sizes
    assert len(lesions) == len(set(lesions)) == 6 + 12 + 2 * sum(sizes.values())
    assert all(lesion.head is lesion.index is None for lesion in lesions[:6])
    assert all(lesion.head is not None and lesion.index is None for lesion in lesions[6:18])
    assert {(x.group, x.index, x.head) for x in lesions[18:]} == {
        (group, i, head) for group, size in sizes.items() for i in range(size) for head in range(2)
    }
    change = {(x.lesion.group, x.lesion.index, x.lesion.head): x.change for x in study.rows}
    assert change["inter", 0, 1] == 0
    assert change["inter", 0, 0] > 0
    assert min(change["motor", i, head] for i in range(2) for head in range(2)) > 1e-5
    some = [replace(lesion, layer=None) for lesion in lesions[::7]]
    checked(recording, some, replace(study, rows=study.rows[::7]))
    rows = study.table()
    assert rows[6]["layer"] == "nac"
    assert (rows[6]["group"], rows[6]["head"], rows[6]["index"], rows[6]["target"]) == ("query", 0, None, None)
    assert rows[6]["change"] == study.rows[6].change


def test_neurons_of_a_shared_circuit_are_silenced_once():
    lesions = all_lesions(NAC(4, 2, wiring="random", backbone_units=6, share_backbone=True, clock=1))
    assert {x.head for x in lesions if x.group in ("motor", "clock")} == {None}
    assert {x.head for x in lesions if x.group == "key"} == {None, 0, 1}
    assert len(lesions) == len(set(lesions))


@pytest.mark.slow
def test_synapses_can_be_cut(tmp_path):
    layer = restless(NAC(8, 2))
    wiring = layer.backbone.wiring
    source, target = (int(i) for i in np.argwhere(wiring.adjacency[:, list(wiring.group("motor"))])[0])
    group = wiring.groups[source]
    lesion = Lesion(group, wiring.group(group).index(source), head=1, target=("motor", target))
    recording = record(layer, torch.randn(1, 20, 8), out=tmp_path / "r")
    study = lesion_study(recording, [lesion])
    checked(recording, [lesion], study)
    assert study.rows[0].change > 0
    assert study.table()[0]["target"] == f"motor {target}"


def test_the_group_of_a_study_is_that_of_lesioned(tmp_path):
    layer, x, time = restless(NAC(16, 2)), torch.randn(1, 30, 16), torch.rand(1, 30).cumsum(1)
    study = lesion_study(record(layer, x, time, out=tmp_path / "r"), [Lesion("command")])
    with torch.no_grad():
        before, after = layer(x, time=time)[0], lesioned(layer, [Lesion("command")])(x, time=time)[0]
    change = ((after - before).abs() / before.std(0, correction=0)).mean().item()
    assert study.rows[0].change == pytest.approx(change, rel=1e-4)


def test_what_a_study_refuses(tmp_path):
    recording = record(NAC(8, 2), torch.randn(1, 12, 8), out=tmp_path / "r")
    with pytest.raises(ValueError, match="head must be from 0 to 1, got 2"):
        lesion_study(recording, [Lesion("motor", head=2)])
    with pytest.raises(ValueError, match="index must be from 0 to 1 among the motor neurons, got 2"):
        lesion_study(recording, [Lesion("motor", 2, head=0)])
    with pytest.raises(ValueError, match="samples must be at least 1, got 0"):
        lesion_study(recording, samples=0)
    with pytest.raises(ValueError, match="steps must be at least 1, got 0"):
        lesion_study(recording, steps=0)
    with pytest.raises(ValueError, match="layer must name a NAC layer, got 'layer'"):
        lesion_study(recording, [Lesion("motor", layer="layer")])
    assert lesion_study(recording, []).rows == ()
