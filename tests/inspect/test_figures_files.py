"""Figures of tuning and of lesions, and figures as files."""

import io
import re

import numpy as np
import pytest
from matplotlib.collections import PathCollection, QuadMesh
from matplotlib.figure import Figure
from PIL import Image

from nacre.inspect.figures import style
from nacre.inspect.figures.circuit import draw_circuit
from nacre.inspect.figures.gates import draw_gates
from nacre.inspect.figures.lesion import draw_lesion
from nacre.inspect.figures.style import save_figure
from nacre.inspect.figures.time_tuning import draw_time_tuning
from nacre.inspect.figures.tuning import draw_tuning
from nacre.inspect.options import FigureKind
from support.inspect_figures import assert_readable, drawn, lesions, line, panel, recorded, texts_of, timed, tuned

LONG = tuple(f"a label with a long name, number {i}" for i in range(12))


@pytest.mark.slow
def test_figures_of_studies_can_be_read(monkeypatch):
    assert_readable(draw_tuning(tuned(16, LONG)), monkeypatch)
    assert_readable(draw_lesion(lesions()), monkeypatch)
    assert_readable(draw_time_tuning(timed(reach=4000.0)), monkeypatch)


@pytest.mark.deep
def test_figures_of_other_studies_can_be_read(monkeypatch):
    for found in (tuned(), tuned(1, ("a", "b"))):
        assert_readable(draw_tuning(found), monkeypatch)
    for study in (lesions(1, "mse", "lower"), lesions(12, "")):
        assert_readable(draw_lesion(study), monkeypatch)
    for found in (timed(12, 12), timed(1, 0, 0, "", silent=None), timed(unit="steps", threshold=float("inf"))):
        assert_readable(draw_time_tuning(found), monkeypatch)


# --- tuning and lesions --------------------------------------------------------------------------------------


def test_tuning_shows_who_is_above_the_threshold():
    found = tuned()
    figure = draw_tuning(found)
    top, bottom = figure.axes
    assert line(top, "threshold").get_ydata() == [0.6, 0.6]
    dots = np.concatenate([d.get_offsets() for d in drawn(figure, PathCollection)])
    assert np.allclose(np.sort(dots[:, 1]), np.sort(found.information, None))
    above = (found.information > 0.6).sum()
    assert sum(int(t.get_text().split("\n")[1].split()[0]) for t in top.get_xticklabels()) == above
    head, column = np.unravel_index(found.information.argmax(), found.information.shape)
    assert bottom.get_yticklabels()[0].get_text().startswith(f"{found.columns[column]}, head {head}: ")
    shown = [float(text.get_text()) for text in bottom.texts[:3]]
    assert np.allclose(shown, found.means[head, column], atol=0.006)


def test_tuning_without_a_threshold_or_a_label():
    found = tuned(threshold=float("inf"), permutations=5)
    found.means[..., 1] = np.nan
    figure = draw_tuning(found)
    assert not [one for one in figure.axes[0].lines if one.get_label() == "threshold"]
    assert "too few for a threshold" in figure.get_supxlabel()
    assert len(figure.axes[1].texts) == 12 * 2


def test_time_tuning_shows_strengths_and_the_curves_that_move_most():
    found = timed()
    figure = draw_time_tuning(found)
    dots = np.concatenate([d.get_offsets() for d in drawn(figure, PathCollection)])
    assert np.allclose(np.sort(dots[:, 1]), 100 * np.sort(found.strength, None))
    counts = [int(t.get_text().split("\n")[1].split()[0]) for t in figure.axes[0].get_xticklabels()]
    assert sum(counts) == found.above.sum()
    command = [i for i, name in enumerate(found.columns) if name.startswith("command")]
    variance = found.means[:, command].var(-1)
    best = np.argsort(-variance, axis=None)[:4]
    ax = panel(figure, "command")
    for line_, place in zip([one for one in ax.lines if len(one.get_xdata()) > 2], best, strict=True):
        head, i = divmod(int(place), len(command))
        assert np.array_equal(line_.get_xdata(), found.elapsed)
        assert np.array_equal(line_.get_ydata(), found.means[head, command[i]])
        strength = f"{100 * found.strength[head, command[i]]:.0f} %"
        assert line_.get_label() == f"command {i}, head {head}: {strength}"
    names = [one.get_label() for one in panel(figure, "clock").lines[:4]]
    assert len({name.split(":")[0] for name in names}) == 4  # not one neuron of several heads
    for name in names:
        index = int(name.split(":")[0].split()[1])
        turn = style.number(2 * np.pi * 4.0 ** (index % 6))
        assert name.endswith(f"\n({'sine' if index > 5 else 'cosine'}, {turn} hours)")
    for gate, sign in (("phi", "φ"), ("omega", "ω"), ("logits", "a")):
        column = found.columns.index(gate)
        lines = panel(figure, sign).lines[:2]
        assert [np.array_equal(one.get_ydata(), found.means[h, column]) for h, one in enumerate(lines)] == [
            True
        ] * 2
    assert "time from key to query (hours)" in figure.axes[-1].get_xlabel()


def test_time_tuning_of_few_far_pairs_has_a_logarithmic_axis():
    for reach, scale in ((3.0, "linear"), (4000.0, "symlog")):
        assert draw_time_tuning(timed(reach=reach)).axes[-1].get_xscale() == scale


def test_time_tuning_without_clock_command_neurons_or_threshold():
    found = timed(1, 0, 0, "", threshold=float("inf"), permutations=5)
    figure = draw_time_tuning(found)
    assert [ax.get_ylabel().split("\n")[0] for ax in figure.axes[1:]] == ["inter", "φ", "ω", "a"]
    caption = figure.get_supxlabel().replace("\n", " ")
    assert "5 permutations are too few for a threshold" in caption
    assert "silent" not in caption
    assert "mean strength of the others falls from" in draw_time_tuning(timed()).get_supxlabel().replace("\n", " ")
    assert figure.axes[-1].get_xlabel().startswith("time from key to query; ")


@pytest.mark.slow
def test_lesions_of_groups_are_bars_and_single_ones_are_cells():
    study = lesions()
    figure = draw_lesion(study)
    assert [bar.get_width() for bar in figure.axes[0].patches] == [row.change for row in study.rows[:6]]
    assert line(figure.axes[1], "_child0").get_xdata()[0] == study.intact
    cells = [np.asarray(mesh.get_array()).reshape(3, -1) for mesh in figure.axes[2].collections]
    assert [cell.shape[1] for cell in cells] == [4, 4, 4, 10, 6, 2]
    (row,) = (r for r in study.rows if r.lesion.group == "inter" and (r.lesion.index, r.lesion.head) == (7, 2))
    assert cells[3][2, 7] == row.change
    difference = np.asarray(figure.axes[3].collections[3].get_array()).reshape(3, -1)
    assert difference[2, 7] == row.difference
    assert "of which there are 1" in figure.get_supxlabel().replace("\n", " ")


@pytest.mark.slow
def test_worse_is_vermilion_whichever_way_is_better():
    for better, end in (("higher", 0.0), ("lower", 1.0)):
        mesh = draw_lesion(lesions(better=better)).axes[3].collections[0]
        assert np.allclose(mesh.get_cmap()(end), style.DIVERGING(0.0))


def test_a_study_without_truth_shows_the_change_alone():
    figure = draw_lesion(lesions(metric=""))
    assert len(drawn(figure, QuadMesh)) == 6  # groups


def test_synapses_alone_are_refused():
    study = lesions()
    study.rows = study.rows[-1:]
    with pytest.raises(ValueError, match=r"study must have lesions of groups or of neurons, got 1 rows"):
        draw_lesion(study)


# --- files ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_text_of_a_figure_stays_text(tmp_path):
    for kind, signs in {"plain": "φωta", "steady": "φωa"}.items():
        recording = recorded(kind, tmp_path / kind)
        svg = save_figure(draw_gates(recording, None, 0), tmp_path / "new" / "gates.svg").read_text()
        for sign in signs:
            assert f">{sign}</" in svg, kind
        assert (">internal time</" in svg) == (kind == "plain")
    svg = save_figure(draw_circuit(recording, None, 0, 0, 0), tmp_path / "circuit.SVG").read_text()
    for name in ("sensory", "inter", "command", "motor", "query", "key", "value"):
        assert f">{name}</" in svg
    assert re.search(r">φ = \d", svg)
    assert re.search(r">ω = \d", svg)


@pytest.mark.slow
def test_files_are_of_their_kind_and_the_same_each_time(tmp_path):
    def small():
        figure = style.new_figure(2.0, "title", "caption")
        figure.add_subplot().pcolormesh([[0, 1], [2, 3]], rasterized=True)
        return figure

    for suffix, start in (("svg", b"<?xml"), ("pdf", b"%PDF"), ("png", b"\x89PNG")):
        path = save_figure(small(), tmp_path / f"a.{suffix}")
        first = path.read_bytes()
        assert first.startswith(start)
        assert save_figure(small(), path).read_bytes() == first
    with Image.open(io.BytesIO(first)) as image:
        assert image.size == (1600, 400)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.pdf", "a.png", "a.svg"]


def test_another_suffix_is_refused(tmp_path):
    for name in ("figure.jpg", "figure", "svg"):
        with pytest.raises(ValueError, match=rf"path must end in .svg, .pdf, .png, got '{name}'"):
            save_figure(Figure(), tmp_path / "new" / name)
    assert list(tmp_path.iterdir()) == []


def test_a_failure_leaves_nothing_behind_and_the_old_file_as_it_was(tmp_path, monkeypatch):
    figure, path = Figure(), tmp_path / "figure.svg"
    path.write_text("old")

    def fail(*given, **options):
        given[0].write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(figure, "savefig", fail)
    with pytest.raises(OSError, match="disk full"):
        save_figure(figure, path)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["figure.svg"]


def test_every_kind_has_a_figure():
    kinds = ["circuit", "activity", "gates", "attention", "tuning", "time-tuning", "lesion"]
    assert [str(kind) for kind in FigureKind] == kinds


def test_the_check_of_texts_sees_what_is_wrong(monkeypatch):
    for size, place in ((8, (0.5, 0.5)), (9, (0.99, 0.5)), (9, (0.1, 0.1))):
        figure = Figure()
        figure.text(0.1, 0.1, "text that is there")
        figure.text(*place, "more text", fontsize=size)
        with pytest.raises(AssertionError):
            assert_readable(figure, monkeypatch)
    assert len(texts_of(figure, monkeypatch)) == 2
