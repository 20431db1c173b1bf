"""The tools work: tables are checked and mended, results taken over, steps towards speed measured."""

import pytest

from nacre.tasks.recipe import Profile, load_recipe
from support.pages import DOCS, tool

bench_steps, take_results, write_pages = map(tool, ("bench_steps", "take_results", "write_pages"))


def test_check_says_which_page_differs_and_writing_mends_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(write_pages, "DOCS", tmp_path)
    good = (DOCS / "demo.md").read_text()
    bad = good.replace("0.0076 ± 0.0013", "0.0075 ± 0.0013")
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


def test_taking_over_results_replaces_what_was_there(tmp_path):
    for name in ("a", "b"):
        folder = tmp_path / name / "task" / "nac" / "fold0-seed0"
        folder.mkdir(parents=True)
        (folder / "result.json").write_text(name)
        (folder / "log.csv").write_text("")
        assert take_results.take(tmp_path / name, tmp_path / "kept", "result.json") == 1
    assert [path.read_text() for path in (tmp_path / "kept").rglob("*") if path.is_file()] == ["b"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(SystemExit, match="stays as it is"):
        take_results.take(tmp_path / "empty", tmp_path / "kept", "result.json")
    assert len([*(tmp_path / "kept").rglob("result.json")]) == 1


@pytest.mark.slow
def test_steps_towards_speed_are_measured(monkeypatch):
    written = {}
    monkeypatch.setattr(bench_steps, "ROUNDS", 1)
    monkeypatch.setattr(bench_steps, "LENGTH", 40)
    monkeypatch.setattr(bench_steps, "write_result", written.__setitem__)
    bench_steps.main()
    result = written["speed-steps.json"]
    for action in ("forward", "step"):
        names = ["PyTorch alone", "+ circuits", "+ selection", "+ mixing", "MultiheadAttention"]
        assert list(result[action]["kernels"]) == names
        assert list(result[action]["sparsity"]) == ["0.0", "0.2", "0.5", "0.9"]
        assert list(result[action]["padding"]) == ["without mask", "with mask"]
        assert all(ms > 0 for part in result[action].values() for ms in part.values())


def test_kernels_are_turned_on_one_by_one():
    modules = [tool(name) for name in bench_steps.KERNELS.values()]
    with bench_steps.with_kernels("circuits"):
        assert [module.library is bench_steps.NO_KERNELS for module in modules] == [False, True, True]
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
