"""The tools work: tables are checked and mended, results taken over, steps measured, costs estimated."""

import json

import pytest
import torch

from nacre.data.dataset import Kind
from nacre.data.files.catalogue import CATALOG
from nacre.data.missing import Missing
from nacre.data.sets.series import forecasting
from nacre.data.splits import SplitBy, make_splits
from nacre.inspect.recording.run import load_subject
from nacre.models.nac import PLUS
from nacre.tasks.recipe import Profile, list_recipes, load_recipe
from nacre.train.evaluate import predict, score
from nacre.train.run_cell import run_cell
from support.datasets import MADE, hourly
from support.pages import DOCS, PAGES, tool
from support.train import MODEL, cell, irregular, spirals

bench_steps, write_pages = map(tool, ("bench_steps", "write_pages"))
estimate_grid = tool("estimate_grid")


def test_pages_are_followed_as_a_stranger_would_with_less_to_do(tmp_path):
    follow = tool("follow_pages")
    left = {step.command: step.left for step in follow.steps()}
    assert len(left) > 100
    assert sum(map(bool, left.values())) < len(left) / 4
    assert left["nacre data check pumps.toml"] == left["nacre bearings predict RUN NEW"] == ""
    for command, wanted in (
        ("nacre bearings predict RUN NEW", "nacre bearings predict runs/bearings/nac/fold0-seed0 NEW"),
        ("nacre train spiral -m nac", "nacre train short/spiral.toml -m nac --folds 1"),
        ("nacre table [RUNS]", "nacre table runs"),
    ):
        assert follow.typed(command, tmp_path) == wanted
    assert load_recipe(tmp_path / "short" / "spiral.toml").at(Profile.STANDARD).training.steps == 20
    assert follow.runs("exit 0", tmp_path)
    assert not follow.runs("exit 3", tmp_path)


def test_what_pages_say_to_save_is_saved_before_their_commands(tmp_path):
    follow = tool("follow_pages")
    saved = {page.name: follow.program(page, tmp_path) for page in PAGES}
    assert saved["your-own-data.md"] == tmp_path / "page-your-own-data.py"
    assert saved["tuning.md"] is None
    recipes = {path.name for path in tmp_path.glob("*.toml")}
    typed = " ".join(
        step.command for step in follow.steps() if step.page in ("your-own-data.md", "missing-values.md")
    )
    assert {word for word in typed.split() if word.endswith(".toml")} == recipes == {"pumps.toml", "icu.toml"}
    assert "class Decay" in (tmp_path / "mydecay.py").read_text()


def test_check_says_which_page_differs_and_writing_mends_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(write_pages, "DOCS", tmp_path)
    good = (DOCS / "demo.md").read_text()
    bad = good.replace(" ± 0.", " ± 1.", 1)
    assert bad != good
    page = tmp_path / "demo.md"
    page.write_text(good)
    assert write_pages.main(["demo", "--check"]) == 0
    page.write_text(bad)
    assert write_pages.main(["demo", "--check"]) == 1
    assert "docs/demo.md differs" in capsys.readouterr().out
    assert page.read_text() == bad
    assert write_pages.main(["demo"]) == 0
    assert page.read_text() == good
    with pytest.raises(SystemExit):
        write_pages.main(["nothing"])
    assert "no tables for nothing" in capsys.readouterr().err


@pytest.mark.slow
def test_figures_are_drawn_on_request(tmp_path, monkeypatch):
    monkeypatch.setattr(write_pages, "DOCS", tmp_path)
    (tmp_path / "images").mkdir()
    (tmp_path / "performance.md").write_text("")
    assert write_pages.main(["performance", "--figures"]) == 0
    assert (tmp_path / "images" / "bench-selection.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_steps_towards_speed_are_measured(monkeypatch):
    written = {}
    monkeypatch.setattr(bench_steps, "ROUNDS", 1)
    monkeypatch.setattr(bench_steps, "LENGTH", 40)
    monkeypatch.setattr(bench_steps, "write_result", written.__setitem__)
    bench_steps.main()
    result = written["speed-steps.json"]
    for action in ("forward", "step"):
        names = ["PyTorch alone", "+ pairs", "+ selection", "MultiheadAttention"]
        assert list(result[action]["kernels"]) == names
        assert list(result[action]["sparsity"]) == ["0.0", "0.2", "0.5", "0.9"]
        assert list(result[action]["padding"]) == ["without mask", "with mask"]
        assert all(ms > 0 for part in result[action].values() for ms in part.values())


def test_kernels_are_turned_on_one_by_one():
    modules = [tool(name) for name in bench_steps.KERNELS.values()]
    with bench_steps.with_kernels("pairs"):
        assert [module.library is bench_steps.NO_KERNELS for module in modules] == [False, True]
    assert not any(module.library is bench_steps.NO_KERNELS for module in modules)


def test_plain_recipes_are_those_of_the_standard_profile_with_a_bare_layer(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["plain_recipes.py", str(tmp_path), "spiral", "ettm1"])
    tool("plain_recipes").main()
    assert {path.name for path in tmp_path.iterdir()} == {"spiral.toml", "ettm1.toml"}
    for name in ("spiral", "ettm1"):
        made, shipped = load_recipe(tmp_path / f"{name}.toml"), load_recipe(name).at(Profile.STANDARD)
        assert not any((made.network.block, made.network.relative, made.network.linear))
        assert (made.training.schedule, made.training.steps) == ("constant", shipped.training.steps)
        assert (made.network.d_model, made.data) == (shipped.network.d_model, shipped.data)


def test_variants_of_nac_plus_differ_from_it_in_what_their_names_say(tmp_path, monkeypatch):
    variants = tool("variant_recipes")
    monkeypatch.setattr("sys.argv", ["variant_recipes.py", str(tmp_path), "spiral", "--steps", "7"])
    variants.main()
    assert len([*tmp_path.iterdir()]) == len(variants.VARIANTS)
    for name, changed in variants.VARIANTS.items():
        made = load_recipe(tmp_path / f"spiral-{name}.toml")
        assert made.models["nac"] == {**PLUS, **changed}
        assert changed.items().isdisjoint(PLUS.items()), "a variant that changes nothing"
        assert (made.training.steps, made.network.d_model) == (7, 32)
    assert {*variants.VARIANTS} == {*write_pages.module_of("nac-plus").CHANGED}


def test_recipes_with_holes_differ_in_what_a_network_sees_alone(tmp_path, monkeypatch):
    holes, whole = tool("hole_recipes"), forecasting(hourly(days=50), MADE, 48, 24)
    monkeypatch.setattr(holes, "load_ettm1", lambda: whole)
    monkeypatch.setattr("sys.argv", ["hole_recipes.py", str(tmp_path)])
    holes.main()
    assert len([*tmp_path.iterdir()]) == 9
    by_time = make_splits(whole, SplitBy.TIME, 5, 0.1)[0]
    recipe = load_recipe(tmp_path / "ettm1-80-flags.toml")
    assert recipe.training == load_recipe("ettm1").at(Profile.STANDARD).training
    assert (recipe.split.by, recipe.data["share"], recipe.data["way"]) == ("official", 0.8, "flags")
    for share in (0.3, 0.8):
        made = {way: holes.ettm1(share, way) for way in holes.WAYS}
        assert [data.missing for data in made.values()] == [Missing.FLAGS, Missing.LAST, Missing.ERROR]
        flags = made["flags"]
        assert flags.values.isnan().float().mean() == pytest.approx(share, abs=0.02)
        test = make_splits(flags, SplitBy.OFFICIAL, 5)[0].test
        assert torch.equal(flags.start[test], whole.start[by_time.test])
        for data in made.values():
            assert data.kind is Kind.FORECASTING
            assert torch.equal(make_splits(data, SplitBy.OFFICIAL, 5)[0].test, test)
            assert torch.equal(data.y[test], whole.y[by_time.test])  # the answers are whole
        with_holes, filled = (made[way].batch(test) for way in ("flags", "interpolation"))
        seen = ~with_holes.x.isnan()
        assert torch.equal(filled.x[seen], with_holes.x[seen])
        assert torch.equal(filled.time, with_holes.time)
        assert not filled.x.isnan().any()


def test_straight_lines_fill_the_holes_of_a_window_from_the_window_alone():
    interpolated = tool("hole_recipes").interpolated
    nan = torch.nan
    x = torch.tensor([[nan, 1.0, nan, nan, 4.0, nan], [nan] * 6, [7.0, nan, nan, nan, nan, 2.0]]).unsqueeze(2)
    wanted = [[1.0, 1.0, 2.0, 3.0, 4.0, 4.0], [5.0] * 6, [7.0, 6.0, 5.0, 4.0, 3.0, 2.0]]
    assert torch.equal(interpolated(x, torch.tensor([5.0])).squeeze(2), torch.tensor(wanted))


@pytest.mark.slow
def test_plain_methods_of_the_page_are_scored_fold_by_fold(tmp_path, monkeypatch):
    summaries = tool("measure_summaries")
    page = summaries.PAGE.read_text().replace("patients = 2_000", "patients = 150")
    (tmp_path / "small.md").write_text(page)
    monkeypatch.setattr(summaries, "PAGE", tmp_path / "small.md")
    monkeypatch.setattr(tool("measured"), "RESULTS", tmp_path)
    summaries.main()
    found = json.loads((tmp_path / summaries.FILE).read_bytes())
    assert [*found["auroc"]] == ["logistic regression", "boosted trees"]
    assert all(len(scores) == 5 and 0 <= min(scores) < max(scores) <= 1 for scores in found["auroc"].values())


@pytest.mark.parametrize("kernel", [True, False])
def test_streams_of_the_bench_are_full_and_go_on(kernel, monkeypatch):
    bench = tool("bench_stream")
    monkeypatch.setattr(bench, "LENGTH", 64)
    streams = bench.Streams("nac-plus", 3, kernel=kernel)
    for _ in range(2):
        streams.step()
    assert streams.state.length.tolist() == [66] * 3
    assert streams.state.stamp.max() == 2


@pytest.mark.slow
def test_lesions_of_a_run_are_measured_once(tmp_path, monkeypatch):
    lesions, made = tool("measure_lesions"), cell(spirals(quick_steps=6), tmp_path / "runs", "nac-plus")
    run_cell(made)
    for module in (lesions, tool("measured")):
        monkeypatch.setattr(module, "RESULTS", tmp_path)
    monkeypatch.setattr("sys.argv", ["measure_lesions.py", str(made.directory)])
    for _ in range(2):
        lesions.main()
    (row,) = json.loads((tmp_path / lesions.FILE).read_bytes())["runs"]
    result = json.loads((made.directory / "result.json").read_bytes())
    assert row["metric"]["nothing"] == pytest.approx(result["value"], rel=1e-6)
    subject = load_subject(made.directory)
    with torch.no_grad():
        for name, parameter in subject.network.named_parameters():
            if name.endswith("backbone.weights.output_scale"):
                parameter.zero_()  # nothing of a circuit is read any more
    outputs = predict(subject.network, subject.data, subject.test)
    silent = score(subject.data, subject.test, outputs, torch.tensor(subject.unit)).metrics["mse"]
    assert row["metric"]["circuit"] == pytest.approx(silent, rel=1e-6)
    assert len({*row["metric"].values()}) == 3


# --- what the whole table costs -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("times", "step"),
    [
        ([1.9, 0.1, 0.2, 0.6], 0.3),  # the first warms up
        ([1.9, 1.4, 0.8], 1.1),  # enough after two seconds
        ([5.0], 5.0),  # too slow for another one
    ],
)
def test_a_cell_costs_its_steps_and_what_it_scores(monkeypatch, times, step):
    task, clock = spirals(), iter([*times, 0.04])
    monkeypatch.setattr(estimate_grid, "timed", lambda action, batch: next(clock))
    row = estimate_grid.measure(task, MODEL)
    assert next(clock, None) is None
    assert row["timed"] == max(len(times) - 1, 1)
    assert row["step_seconds"] == pytest.approx(step)
    # 20 steps, one a round; 4 sequences validate in every round and at the end, 4 are tested; a batch has 4.
    assert (row["steps"], row["scored"], row["folds"]) == (20, 21 * 4 + 4, 3)
    assert row["cell_seconds"] == pytest.approx(20 * step + 88 * 0.04 / 4, abs=0.06)


def test_what_is_timed_is_a_training_step_on_batches_of_typical_length():
    task = irregular()
    batches, length = estimate_grid.typical_batches(task), task.data.length
    middle, short, long = (int(length[batch].sum()) for batch in batches)
    assert short < middle < long
    assert {*torch.cat(batches).tolist()} <= {*task.splits[0].train.tolist()}
    network = task.network("ot-transformer", 0, 0)  # which adds to the loss
    before = [p.clone() for p in network.parameters()]
    train, score = estimate_grid.actions(task, network, 20)
    score(batches[0])
    assert all(map(torch.equal, before, network.parameters()))
    train(batches[0])
    assert not any(map(torch.equal, before, network.parameters()))
    assert estimate_grid.measure(task, MODEL)["cell_seconds"] > 0


def test_an_estimate_goes_on_where_it_was_interrupted(tmp_path, monkeypatch, capsys):
    asked, commit = [], "a"

    def measure(recipe, model):
        asked.append((recipe.name, model))
        if len(asked) == 2:
            raise KeyboardInterrupt
        return {"task": recipe.name, "model": model, "cell_seconds": 1.0}

    monkeypatch.setenv("NACRE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(tool("measured"), "RESULTS", tmp_path)
    monkeypatch.setattr(estimate_grid, "provenance", lambda: {"commit": commit})
    monkeypatch.setattr(estimate_grid, "load", lambda recipe, _: None if recipe.name == "carracing" else recipe)
    monkeypatch.setattr(estimate_grid, "measure", measure)
    words = ["--model", "sdpa", "--model", "nac", "--task", "spiral", "--task", "carracing"]
    with pytest.raises(KeyboardInterrupt):
        estimate_grid.main(words)
    assert not (tmp_path / estimate_grid.FILE).exists()
    estimate_grid.main(words)
    assert asked == [("spiral", "sdpa"), ("spiral", "nac"), ("spiral", "nac")]
    assert "carracing: no data, left out" in capsys.readouterr().out
    found = json.loads((tmp_path / estimate_grid.FILE).read_bytes())
    assert [row["model"] for row in found["results"]] == ["sdpa", "nac"]
    commit = "b"  # another one may be faster
    estimate_grid.main(words)
    assert len(asked) == 5
    estimate_grid.main(words)
    assert len(asked) == 5
    estimate_grid.main([*words, "--anew"])
    assert len(asked) == 7
    assert len(json.loads((tmp_path / estimate_grid.FILE).read_bytes())["results"]) == 2


def test_all_shipped_tasks_are_estimated_if_their_data_is_there(tmp_path, monkeypatch):
    assert set(estimate_grid.TASKS) == {*list_recipes()} - {"event-mnist-11"}
    monkeypatch.delenv("NACRE_DATA", raising=False)
    monkeypatch.setenv("NACRE_CACHE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    found = [name for name in estimate_grid.TASKS if estimate_grid.load(load_recipe(name), None) is not None]
    assert "spiral" in found
    assert not [name for name in found if name in CATALOG and CATALOG[name].forms]  # and nothing is fetched


def test_the_page_adds_up_the_estimate(monkeypatch):
    cells = {("sdpa", "a"): 3600, ("sdpa", "b"): 5400, ("nac", "a"): 36_000, ("nac", "b"): 9_000}
    rows = [
        {"model": model, "task": task, "cell_seconds": seconds, "folds": 2 if task == "a" else 5}
        for (model, task), seconds in cells.items()
    ]
    origin = {"commit": "c", "machine": {"processor": "P", "threads": 1}}
    page = write_pages.module_of("harness")
    monkeypatch.setattr(page, "load", lambda name: {"provenance": origin, "results": rows})
    lines = page.estimate().splitlines()
    assert lines[2:4] == ["| `sdpa` | 2.50 | 1.00 |", "| `nac` | 12.5 | 5.00 |"]
    assert lines[5] == (
        "All 2 models together: 15.0 hours for one fold of `a`, `b`, 42.0 for all folds (commit `c`, P, "
        "threads of torch: 1)."
    )
    rows.pop()
    with pytest.raises(ValueError, match="nac is not measured on b; run python tools/estimate_grid.py"):
        page.estimate()
