"""Figures of recordings show what was recorded, and can be read."""

import re

import numpy as np
import pytest
import torch
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.colors import to_rgb
from matplotlib.offsetbox import AnnotationBbox

from nacre import NAC
from nacre.inspect import record
from nacre.inspect.figures import style
from nacre.inspect.figures.activity import draw_activity
from nacre.inspect.figures.attention import attention_map, draw_attention
from nacre.inspect.figures.circuit import draw_circuit
from nacre.inspect.figures.gates import draw_gates
from nacre.inspect.recording.hooks import layers_of
from support.inspect_figures import assert_readable, drawn, line, panel, recorded

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Recordings by kind, each made once."""
    found = {}

    def make(kind):
        if kind not in found:
            found[kind] = recorded(kind, tmp_path_factory.mktemp("figures") / "recording")
        return found[kind], next(iter(found[kind].layers.values()))

    return make


# --- all -----------------------------------------------------------------------------------------------------


def deep(*values):
    return pytest.param(*values, marks=pytest.mark.deep)


@pytest.mark.parametrize(
    ("kind", "draws"),
    [
        ("plain", "gates attention"),
        deep("plain", "circuit activity"),
        ("one", "circuit attention"),
        deep("one", "activity gates"),
        ("many", "circuit activity"),
        deep("many", "gates"),
        deep("steady", "gates attention"),
        ("clock", "circuit activity"),
        ("drive", "attention"),
        deep("drive", "activity"),
        deep("long", "activity"),
        deep("strided", "activity"),
    ],
)
def test_figures_can_be_read(kind, draws, made, monkeypatch):
    recording, layer = made(kind)
    head, step = layer.heads - 1, layer.length(0) // 2
    draw = {
        "circuit": lambda: draw_circuit(recording, None, 0, head, step),
        "activity": lambda: draw_activity(recording, layer.name, 0, head),
        "gates": lambda: draw_gates(recording, layer.name, 0),
        "attention": lambda: draw_attention(recording, layer.name, 0, head, step),
    }
    for name in draws.split():
        assert_readable(draw[name](), monkeypatch)


@pytest.mark.parametrize(
    "kind", ["classes", "forecast", deep("padded"), deep("asked"), deep("once"), deep("once numbers")]
)
def test_answers_of_all_kinds_can_be_read(kind, made, monkeypatch):
    assert_readable(draw_activity(made(kind)[0], None, 0, 0), monkeypatch)


def test_what_is_not_there_is_refused(made):
    recording, _ = made("plain")
    draws = {draw_circuit: (0, 0), draw_activity: (0,), draw_gates: (), draw_attention: (0, 0)}
    for draw, rest in draws.items():
        with pytest.raises(
            ValueError, match=r"layer must name a layer of the recording, got 'na'; did you mean 'nac'"
        ):
            draw(recording, "na", 0, *rest)
        with pytest.raises(ValueError, match=r"sample must be from 0 to 1, got 2"):
            draw(recording, "nac", 2, *rest)
        if rest:
            with pytest.raises(ValueError, match=r"head must be from 0 to 2, got -1"):
                draw(recording, "nac", 0, -1, *rest[1:])
        if len(rest) > 1:
            with pytest.raises(ValueError, match=r"step must be from 0 to 49, got 50"):
                draw(recording, "nac", 0, 0, 50)


# --- circuit -------------------------------------------------------------------------------------------------


def synapses_of(figure):
    """Colours and widths of all synapses."""
    lines = [c for c in figure.axes[0].collections if isinstance(c, LineCollection)]
    assert sum(len(c.get_segments()) for c in lines) == sum(len(c.get_colors()) for c in lines)
    return np.concatenate([c.get_colors() for c in lines]), np.concatenate([c.get_linewidths() for c in lines])


def test_a_small_circuit_shows_every_synapse_with_its_trained_sign(made):
    recording, layer = made("padded")
    weights = layers_of(recording.model())[layer.name].backbone.weights
    trained = torch.cat([weights.drive()[0][1].flatten(), weights.recurrent()[1].flatten()])
    colours, widths = synapses_of(draw_circuit(recording, None, 0, 1, 3))
    for colour, wanted in ((style.POSITIVE, trained > 0), (style.NEGATIVE, trained < 0)):
        assert np.isclose(colours[:, :3], to_rgb(colour)).all(1).sum() == wanted.sum()
    assert np.corrcoef(widths, colours[:, 3])[0, 1] > 0.99
    assert len(np.unique(widths)) > len(widths) / 2


def test_a_large_circuit_shows_its_strongest_synapses_and_says_how_many(made):
    recording, layer = made("many")
    figure = draw_circuit(recording, layer.name, 0, 2, 7)
    colours, _ = synapses_of(figure)
    caption = figure.get_supxlabel().replace("\n", " ")
    total = np.count_nonzero(layer.wiring.adjacency) + np.count_nonzero(layer.wiring.input_adjacency)
    assert len(colours) == 320
    assert f"the 320 strongest of {total:,} synapses" in caption
    parts = [int(n) for n in re.findall(r"(\d+) of [\d,]+ from", caption)]
    assert sum(parts) == 320
    weights = layers_of(recording.model())["nac"].backbone.weights.drive()[0][2].detach().numpy()
    signs = np.sort(np.abs(weights[weights != 0]))[-parts[0] :]
    strongest = np.sign(weights[np.abs(weights) >= signs[0]])
    shown = figure.axes[0].collections[0].get_colors()[:, :3]
    assert np.isclose(shown, to_rgb(style.POSITIVE)).all(1).sum() == (strongest > 0).sum()


def test_neurons_have_the_colours_of_their_states(made):
    recording, layer = made("plain")
    figure = draw_circuit(recording, None, 1, 2, 9)
    values = np.concatenate([dots.get_array() for dots in drawn(figure, PathCollection)])
    assert np.allclose(values, layer.array("states")[1, 9, 2])


def test_a_circuit_without_weights_shows_the_signs_of_its_wiring(made):
    recording, layer = made("own")
    figure = draw_circuit(recording, None, 0, 1, 3)
    colours, widths = synapses_of(figure)
    assert len(colours) == 320
    assert len(np.unique(widths)) == 1
    assert "holds no weights" in figure.get_supxlabel()
    positive = np.isclose(colours[:, :3], to_rgb(style.POSITIVE)).all(1).mean()
    tables = np.concatenate([layer.wiring.adjacency.ravel(), layer.wiring.input_adjacency.ravel()])
    assert abs(positive - (tables[tables != 0] > 0).mean()) < 0.15


# --- activity ------------------------------------------------------------------------------------------------


def test_the_centroid_is_the_mean_of_the_group(made):
    recording, layer = made("plain")
    figure = draw_activity(recording, None, 1, 2)
    states = np.asarray(layer.array("states")[1, :, 2])
    times, start = layer.time(1), 0
    for group, size in layer.sizes.items():
        if group == "clock":
            assert size == 0
            continue
        ax = panel(figure, {"query": "query q", "key": "key k", "value": "value v"}.get(group, group))
        x, y = line(ax, "centroid").get_data()
        of_group, start = states[:, start : start + size], start + size
        assert np.array_equal(x, times)
        assert np.allclose(y, of_group.mean(1), atol=1e-6)
        if group == "inter":  # 38 neurons are rows of colours
            rows = np.asarray(panel(figure, "38 inter").collections[0].get_array()).reshape(38, 50)
            assert np.allclose(np.sort(rows, 0), np.sort(of_group.T, 0))
        else:
            thin = np.stack([one.get_ydata() for one in ax.lines[:size]], 1)
            assert np.allclose(thin, of_group)


def test_points_of_a_long_recording_are_means_of_its_steps(made):
    recording, layer = made("long")
    figure = draw_activity(recording, None, 0, 1)
    first, y = line(panel(figure, "key k"), "centroid").get_data()
    start = layer.sizes["query"]
    states = np.asarray(layer.array("states")[0, :, 1, start : start + layer.sizes["key"]]).mean(1)
    assert 1000 <= len(first) < 2000
    assert np.allclose(y, np.add.reduceat(states, first.astype(int)) / np.diff([*first, len(states)]), atol=1e-5)
    assert f"mean of {int(first[1])} steps" in figure.get_supxlabel().replace("\n", " ")


def test_frames_and_classes(made):
    recording, _ = made("drive")
    frames = [
        a for a in panel(draw_activity(recording, None, 0, 0), "input").artists if isinstance(a, AnnotationBbox)
    ]
    assert len(frames) == 7
    recording, _ = made("classes")
    answer = panel(draw_activity(recording, None, 0, 0), "answer")
    shares = torch.from_numpy(recording.array("output")[0]).softmax(1).T
    assert np.allclose(np.asarray(answer.collections[0].get_array()).reshape(4, 60), shares, atol=1e-6)
    assert answer.lines[0].get_ydata().tolist() == [i % 5 - 1 for i in range(60) if i % 5]  # -1 is not scored
    assert [t.get_text() for t in answer.get_yticklabels()] == ["lying do…body", "walking", "sitting", "falling"]


def test_steps_that_are_only_asked_about_are_told_from_those_that_were_seen(made):
    recording, layer = made("asked")
    figure = draw_activity(recording, None, 0, 0)
    assert len(line(panel(figure, "input"), "x").get_xdata()) == 25
    ax = panel(figure, "query q")
    centroid = np.asarray(layer.array("states")[0, :, 0, : layer.sizes["query"]]).mean(1)
    assert np.allclose(line(ax, "centroid").get_ydata(), centroid[::2], atol=1e-6)
    assert np.allclose(line(ax, "observed").get_ydata(), centroid[1::2], atol=1e-6)
    assert len(line(panel(figure, "answer"), "y0").get_xdata()) == 25


def test_one_answer_for_a_sample(made):
    title = panel(draw_activity(made("once")[0], None, 0, 0), "answer").get_title(loc="left")
    assert "the answer is 'y1', true is 'y2'" in title.replace("\n", " ")
    forecast = panel(draw_activity(made("forecast")[0], None, 0, 0), "answer")
    assert line(forecast, "model").get_ydata().tolist() == list(range(12))
    assert line(forecast, "truth").get_ydata().tolist() == list(range(1, 13))
    numbers = panel(draw_activity(made("once numbers")[0], None, 0, 0), "answer")
    level = [one.get_ydata()[0] for one in numbers.lines if one.get_linestyle() == ":"]
    assert level == [0, 2, 1, 2]


def test_inputs_and_tokens_share_one_axis_of_time(made, monkeypatch):
    recording, layer = made("strided")
    figure = draw_activity(recording, None, 0, 0)
    stamps = np.asarray(recording.array("time")[0])
    assert layer.length(0) < len(stamps)
    assert np.allclose(line(panel(figure, "input"), "x0").get_xdata(), stamps - stamps[0])  # as the network has it
    assert np.array_equal(line(panel(figure, "query q"), "centroid").get_xdata(), layer.time(0))
    assert "command" not in {ax.get_ylabel() for ax in figure.axes}
    assert_readable(draw_circuit(recording, None, 0, 0, 3), monkeypatch)


def test_padding_is_not_drawn(made):
    recording, layer = made("padded")
    figure = draw_activity(recording, None, 1, 0)
    assert layer.length(1) == 25
    assert len(line(panel(figure, "input"), "x0").get_xdata()) == 25
    assert line(panel(figure, "motor"), "centroid").get_xdata().tolist() == list(range(25))


def test_inputs_of_different_sizes_have_a_scale_each(tmp_path):
    x = torch.rand(1, 30, 3) * torch.tensor([1.0, 1.0, 1000.0])
    for numbers, shown in ((x[..., :2], False), (x, True)):
        recording = record(NAC(8, 1, d_input=numbers.shape[2]), numbers, out=tmp_path / f"{shown}")
        drawn = panel(draw_activity(recording, None, 0, 0), "input").get_lines()
        reach = [np.ptp(curve.get_ydata()) for curve in drawn]
        assert all(curve.get_label().count(" to ") == shown for curve in drawn)
        assert (min(reach) == max(reach) == 1.0) == shown


def test_a_sample_that_is_all_padding_is_refused(tmp_path):
    padding = torch.tensor([[False] * 5, [True] * 5])
    recording = record(NAC(8, 1, d_input=2), torch.randn(2, 5, 2), None, padding, out=tmp_path / "recording")
    with pytest.raises(ValueError, match=r"sample must have steps that are no padding, got 1"):
        draw_gates(recording, None, 1)


# --- gates ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["plain", "steady"])
def test_gates_of_few_heads_are_lines(kind, made):
    recording, layer = made(kind)
    figure = draw_gates(recording, None, 0)
    names = [ax.get_ylabel().split("\n")[0] for ax in figure.axes]
    assert names == ["input", *(style.GATES[gate][0] for gate in layer.gates)]
    assert ("t" in names) == (kind == "plain")
    for column, gate in enumerate(layer.gates):
        ax = panel(figure, style.GATES[gate][0])
        for head in range(layer.heads):
            assert np.allclose(line(ax, f"head {head}").get_ydata(), layer.array("gates")[0, :, head, column])


def test_gates_of_many_heads_are_rows_of_colours(made):
    recording, layer = made("many")
    figure = draw_gates(recording, None, 0)
    for column, gate in enumerate(layer.gates):
        rows = np.asarray(panel(figure, style.GATES[gate][0]).collections[0].get_array()).reshape(8, 40)
        assert np.allclose(rows, np.asarray(layer.array("gates")[0, :, :, column]).T)


# --- attention -----------------------------------------------------------------------------------------------


def test_the_map_of_attention_is_that_of_the_weights(made):
    _, layer = made("plain")
    found = attention_map(layer, 1, 2)
    wanted = np.zeros((50, 50))
    index, weights = (np.asarray(layer.array(name)[1, :, 2]) for name in ("index", "weights"))
    for step in range(50):
        wanted[index[step], step] += weights[step]
    assert not found.back
    assert (found.row, found.column) == (1, 1)
    assert np.allclose(found.share, wanted)


def test_a_long_map_of_attention_is_binned(made):
    _, layer = made("long")
    found = attention_map(layer, 0, 0)
    assert max(found.share.shape) <= 400
    assert found.column == 23
    assert np.allclose(found.share.sum(0), 1, atol=1e-5)
    index, weights = (np.asarray(layer.array(name)[0, 230:253, 0]) for name in ("index", "weights"))
    row = (np.arange(230, 253)[:, None] - index if found.back else index) - found.first
    wanted = np.bincount(row.ravel() // found.row, weights.ravel(), len(found.share)) / 23
    assert np.allclose(found.share[:, 10], wanted, atol=1e-6)


def test_near_keys_are_counted_back(made):
    recording, layer = made("drive")
    found = attention_map(layer, 0, 1)
    assert found.back
    assert found.share.shape == (4, 64)
    assert np.allclose(found.share[:, 9], layer.array("weights")[0, 9, 1])
    figure = draw_attention(recording, None, 0, 1, 9)
    arcs, frames = figure.axes[:2]
    assert len(arcs.collections[0].get_segments()) == 4
    assert sorted(arcs.collections[1].get_offsets()[:, 0]) == [6, 7, 8, 9]
    assert len([a for a in frames.artists if isinstance(a, AnnotationBbox)]) == 4
    assert "Step 9 (diamond) attends to 4 keys" in arcs.get_title(loc="left")


def test_attention_without_a_step_has_no_arcs(made):
    recording, _ = made("plain")
    assert not drawn(draw_attention(recording, None, 0, 0), LineCollection)


def test_gates_say_what_the_match_does(made):
    for kind, words in (("clock", "match, of query and key, is where a starts"), ("steady", "add to the target")):
        caption = draw_gates(made(kind)[0], None, 0).get_supxlabel().replace("\n", " ")
        assert words in caption, kind
