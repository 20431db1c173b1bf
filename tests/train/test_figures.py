"""Figures of a grid of runs."""

import io

import matplotlib
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image

from nacre._util.plotting import COLOURS
from nacre.train.report import figures, run_figures
from nacre.train.report.compare import blocks_of
from nacre.train.report.paper import paper_models
from nacre.train.report.results import find_results
from nacre.train.report.run_figures import SHOWN, NothingToDraw, leading
from support.runs import write_folds, write_log, write_predictions, write_run

matplotlib.use("Agg")
CLASSES = {"metric": "accuracy", "better": "higher", "kind": "classification", "task": "event-mnist"}


def pixels(png):
    with Image.open(io.BytesIO(png)) as image:
        return np.asarray(image.convert("RGB")).astype(int)


def amount(image, colour):
    """Number of pixels of a colour."""
    rgb = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    return (np.abs(image - rgb).max(-1) < 8).sum()


def the_block(root):
    (block,) = blocks_of(find_results(root).results)
    return block


class Drawn:
    """Catches a figure before it becomes a PNG file, so that lines and labels can be looked at."""

    def __init__(self, monkeypatch, module):
        self.figure = None
        real = module.png

        def catch(figure):
            self.figure = figure
            return real(figure)

        monkeypatch.setattr(module, "png", catch)

    def lines(self, panel=0):
        return {line.get_label(): np.array(line.get_xydata()) for line in self.figure.axes[panel].lines}


def assert_nothing_is_cut(figure):
    """All that is drawn lies within the figure, up to a hundredth of an inch."""
    box = figure.get_tightbbox(FigureCanvasAgg(figure).get_renderer())
    width, height = figure.get_size_inches()
    assert min(box.x0, box.y0) > -0.01
    assert box.x1 < width + 0.01
    assert box.y1 < height + 0.01


# --- ranks --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_ranks_of_all_models_are_drawn_best_first(tmp_path, monkeypatch):
    drawn = Drawn(monkeypatch, figures)
    for task in ("ettm1", "jena"):
        for i, model in enumerate(paper_models()):
            write_run(tmp_path, model, value=1.0 + i, task=task)
    image = pixels(figures.rank_diagram(blocks_of(find_results(tmp_path).results)))
    assert amount(image, COLOURS[0]) > 32 * 20
    ax = drawn.figure.axes[0]
    assert [label.get_text() for label in ax.get_yticklabels()] == list(paper_models())
    diamonds = [line.get_xydata()[0] for line in ax.lines if line.get_marker() == "D"]
    assert [tuple(d) for d in diamonds] == [(i + 1, i) for i in range(32)]
    assert_nothing_is_cut(drawn.figure)


def test_ranks_need_two_models(tmp_path):
    write_run(tmp_path)
    with pytest.raises(NothingToDraw, match="two models"):
        figures.rank_diagram(blocks_of(find_results(tmp_path).results))


# --- confusions ---------------------------------------------------------------------------------------------


def test_confusions_are_summed_over_folds_and_normalised_by_truth(tmp_path, monkeypatch):
    drawn = Drawn(monkeypatch, figures)
    names = ["standing up from sitting on the ground", "b", "never"]
    for fold, counts in enumerate(([[8, 2, 0], [1, 1, 0], [0, 0, 0]], [[0, 10, 0], [0, 2, 0], [0, 0, 0]])):
        write_run(tmp_path, "nac", fold, value=50.0, classes=names, confusion=counts, **CLASSES)
    write_run(tmp_path, "sdpa", value=60.0, classes=names, confusion=[[1, 0, 0], [0, 1, 0], [0, 0, 0]], **CLASSES)
    write_run(tmp_path, "cta", value=60.0, **CLASSES)
    figures.confusion_matrices(the_block(tmp_path))
    panels = {ax.get_title(): ax for ax in drawn.figure.axes if ax.get_visible()}
    assert set(panels) == {"sdpa", "nac"}
    share = panels["nac"].images[0].get_array().filled(np.nan)
    np.testing.assert_allclose(share, [[40, 60, 0], [25, 75, 0], [np.nan] * 3])
    assert {t.get_text() for t in panels["nac"].texts} == {"40", "60", "25", "75"}
    assert_nothing_is_cut(drawn.figure)


def test_confusions_of_all_models_fit_one_figure(tmp_path, monkeypatch):
    drawn = Drawn(monkeypatch, figures)
    for model in paper_models()[:5]:  # one more than fits side by side
        write_run(tmp_path, model, value=1.0, classes=["a", "b"], confusion=[[1, 2], [3, 4]], **CLASSES)
    figures.confusion_matrices(the_block(tmp_path))
    assert sum(ax.get_visible() for ax in drawn.figure.axes) == 5
    assert_nothing_is_cut(drawn.figure)


# --- forecasts ----------------------------------------------------------------------------------------------


def test_forecasts_are_means_of_five_windows_from_the_hundredth(tmp_path, monkeypatch):
    drawn = Drawn(monkeypatch, run_figures)
    for model, shift in (("nac", 0.5), ("sdpa", -1.0)):
        write_predictions(write_run(tmp_path, model), shift)
    image = pixels(run_figures.forecast_curves(the_block(tmp_path)))
    assert amount(image, COLOURS[0]) > 200
    truth = 10 + 5 * np.sin((np.arange(120)[:, None] + np.arange(24)) / 12)
    for panel, windows in ((0, slice(100, 105)), (1, slice(100, 101))):
        lines = drawn.lines(panel)
        np.testing.assert_allclose(lines["truth"][:, 0], 0.25 * np.arange(1, 25))
        np.testing.assert_allclose(lines["truth"][:, 1], truth[windows].mean(0))
        np.testing.assert_allclose(lines["nac"][:, 1], truth[windows].mean(0) + 0.5)
        np.testing.assert_allclose(lines["sdpa"][:, 1], truth[windows].mean(0) - 1.0)
    assert_nothing_is_cut(drawn.figure)


def test_forecasts_use_what_windows_there_are_and_leave_out_other_damaged_or_lost_ones(tmp_path, monkeypatch):
    drawn = Drawn(monkeypatch, run_figures)
    for model in ("nac", "sdpa"):
        write_predictions(write_run(tmp_path, model), windows=3)
    write_predictions(write_run(tmp_path, "cta"), windows=3, first=7)
    write_predictions(write_run(tmp_path, "s4"), shift=np.nan, windows=3)
    write_predictions(write_run(tmp_path, "mtan", 3), windows=3)
    (write_run(tmp_path, "mmrnn") / "predictions.npz").write_bytes(b"PK\x03\x04 half a file")
    np.savez(write_run(tmp_path, "performer") / "predictions.npz", prediction=np.zeros((2, 2)))
    objects = np.array([{"a": 1}], dtype=object)
    np.savez(write_run(tmp_path, "ltc-fc") / "predictions.npz", prediction=objects)
    run_figures.forecast_curves(the_block(tmp_path))
    assert set(drawn.lines()) == {"truth", "nac", "sdpa"}
    assert drawn.figure.axes[0].get_title(loc="left") == "mean of 3 windows (from 0)"


# --- losses -------------------------------------------------------------------------------------------------


def test_losses_are_means_over_folds_up_to_the_last_common_step(tmp_path, monkeypatch):
    drawn = Drawn(monkeypatch, run_figures)
    first, second = write_folds(tmp_path, "nac", [0.1, 0.2])
    write_log(first, (10, 20, 30), (4.0, 2.0, 1.0), (5.0, 3.0, ""))
    write_log(second, (10, 20), (2.0, 1.0), (7.0, 4.0))
    (write_run(tmp_path, "sdpa") / "log.csv").write_text("step,train_loss\n1,x\n")
    run_figures.loss_curves(the_block(tmp_path))
    np.testing.assert_allclose(drawn.lines(0)["nac"], [[10, 3.0], [20, 1.5]])
    np.testing.assert_allclose(drawn.lines(1)["nac"], [[10, 6.0], [20, 3.5]])
    band = drawn.figure.axes[0].collections[0].get_paths()[0].vertices
    assert (band[:, 1].min(), band[:, 1].max()) == (1.0, 4.0)
    assert "sdpa" not in drawn.lines(0)
    assert_nothing_is_cut(drawn.figure)


def test_crowded_panels_show_nac_and_the_best(tmp_path):
    for i, model in enumerate(paper_models()):
        write_run(tmp_path, model, value=1.0 + i)
    names = leading(the_block(tmp_path), set(paper_models()))
    assert names == ["nac", *paper_models()[: SHOWN - 1]]
    assert leading(the_block(tmp_path), {"s4", "cta"}) == ["s4", "cta"]


# --- files --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_can_be_drawn_is_written_and_the_rest_is_told(tmp_path, capsys):
    runs, out = tmp_path / "runs", tmp_path / "new" / "figures"
    for model in ("nac", "sdpa"):
        directory = write_run(runs, model)
        write_predictions(directory)
        write_log(directory)
        write_run(runs, model, value=50.0, classes=["a"], confusion=[[3]], **CLASSES)
    (write_run(runs, "cta") / "result.json").write_text("{")
    written = figures.write_plots(runs, out)
    wanted = ["ranks-quick", "loss-ettm1-quick", "forecast-ettm1-quick", "confusion-event-mnist-quick"]
    assert [path.name for path in written] == [f"{name}.png" for name in wanted]
    assert sorted(out.iterdir()) == sorted(written)
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in written)
    told = capsys.readouterr().out
    assert told == "loss-event-mnist-quick.png is not drawn: no run has a training log\n"


def test_names_of_figures_stay_in_their_folder_and_apart(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "loss_curves", lambda block: b"")
    for name in ("../../evil", "ettm1"):
        for recipe in ("a", "b"):
            directory = write_run(tmp_path / "runs" / recipe / "x" / "y", recipe=recipe)
            result = directory / "result.json"
            result.write_text(result.read_text().replace('"task": "ettm1"', f'"task": "{name}"'))
            directory.rename(tmp_path / "runs" / f"{recipe}{len(name)}")
    written = figures.write_plots(tmp_path / "runs", tmp_path / "out")
    assert sorted(p.name for p in written) == [
        "loss-..-..-evil-quick-2.png",
        "loss-..-..-evil-quick.png",
        "loss-ettm1-quick-2.png",
        "loss-ettm1-quick.png",
    ]
    assert {p.parent for p in written} == {tmp_path / "out"}


def test_a_figure_that_fails_leaves_no_file(tmp_path, monkeypatch):
    def fail(block):
        raise RuntimeError("no ink")

    write_run(tmp_path / "runs")
    monkeypatch.setattr(figures, "loss_curves", fail)
    with pytest.raises(RuntimeError, match="no ink"):
        figures.write_plots(tmp_path / "runs", tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []
