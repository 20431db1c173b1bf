"""The demo, with few steps."""

import base64
import io
import json
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch
from rich.console import Console

from nacre import demo
from nacre.data.sets.spirals import HALF, make_spirals
from nacre.demo import report as demo_report
from nacre.demo.networks import CORES, NACCore, SpiralNet

FILES = ["report.html", "result.json", "spirals.png", "losses.png", "circuit.png", "trace.png"]
CONTROLS = ["straight lines, then last point held", "average training spiral of its family"]


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    return demo.run_demo(tmp_path_factory.mktemp("demo") / "sub", steps=40)


@pytest.fixture(scope="module")
def page(result):
    return Page(result.files[0].read_text())


class Page(HTMLParser):
    """Tags with attributes, text, and whether every tag is closed."""

    def __init__(self, source):
        super().__init__()
        self.source, self.tags, self.text, self.open = source, [], "", []
        self.feed(source)
        self.text = " ".join(self.text.split())

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


# --- the run ------------------------------------------------------------------------------------------------


def test_it_writes_its_files_and_no_others(result):
    assert [f.name for f in result.files] == FILES
    assert sorted(f.name for f in result.files[0].parent.iterdir()) == sorted(FILES)
    for picture in result.files[2:]:
        assert picture.read_bytes().startswith(b"\x89PNG")
        assert picture.stat().st_size > 10_000


def test_every_model_learns(result):
    assert list(result.models) == list(result.losses) == ["NAC", "SDPA", "CfC"]
    for name, losses in result.losses.items():
        assert len(losses) == 40
        assert sum(losses[-5:]) < 0.1 * sum(losses[:5])
        assert result.models[name]["rmse"]["extrapolation"] < result.controls[CONTROLS[0]]["rmse"]["extrapolation"]


def test_parameters_are_counted(result):
    shared = {size["all"] - size["core"] for size in result.parameters.values()}
    assert len(shared) == 1
    core = {name: size["core"] for name, size in result.parameters.items()}
    assert core["NAC"] == sum(p.numel() for p in NACCore().parameters())
    assert abs(core["CfC"] / core["NAC"] - 1) < 0.05


def test_result_json_equals_the_result(result):
    stored = json.loads(result.files[1].read_text())
    assert stored == result.to_dict()
    assert stored["settings"] == {"seed": 1, "steps": 40, "spread": 0.02}
    assert set(stored["versions"]) == {"nacre", "torch"}
    assert list(stored["controls"]) == CONTROLS


def measure(monkeypatch, seed, spread=0.02):
    monkeypatch.setattr(demo, "_draw", lambda *_: {})
    return demo.compare(Console(quiet=True), 2, seed, spread)[0]


def test_it_is_deterministic_under_its_seed(monkeypatch):
    first = measure(monkeypatch, 1)
    assert measure(monkeypatch, 1) == first
    assert measure(monkeypatch, 2).losses != first.losses
    assert measure(monkeypatch, 1, spread=0.05).losses != first.losses


def test_the_seed_is_that_of_data_weights_and_batches(monkeypatch):
    seeds = []
    data, build, train = demo.make_spirals, demo.build, demo._train
    monkeypatch.setattr(demo, "make_spirals", lambda seed, spread: seeds.append(seed) or data(30, seed, spread))
    monkeypatch.setattr(demo, "build", lambda name, seed: seeds.append(seed) or build(name, seed))
    monkeypatch.setattr(demo, "_train", lambda *args: seeds.append(args[-1]) or train(*args))
    measure(monkeypatch, 7)
    assert seeds == [7] * (1 + 2 * len(CORES))


def test_all_models_see_the_same_batches(monkeypatch):
    train, _ = make_spirals()
    seen = []
    monkeypatch.setattr(SpiralNet, "forward", lambda self, *args: seen.append(args) or self.at.bias.sum())
    nets = [demo.build(name, seed=0) for name in CORES]
    for net in nets:
        list(demo._train(net, train, 2, seed=5))
    for other in (seen[2:4], seen[4:6]):
        for ours, theirs in zip(seen[:2], other, strict=True):
            assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
    assert not torch.equal(seen[0][0], seen[1][0])


def test_bodies_start_from_the_same_weights():
    nac, *others = (demo.build(name, seed=0) for name in CORES)
    body = {k: v for k, v in nac.state_dict().items() if not k.startswith("core.")}
    for other in others:
        state = other.state_dict()
        assert all(torch.equal(v, state[k]) for k, v in body.items())
    assert not torch.equal(body["where.weight"], demo.build("NAC", 1).where.weight)


@pytest.mark.parametrize("steps", [1, 9, 10, 11])
def test_short_schedules(steps):
    train, _ = make_spirals(n=12)
    assert len(list(demo._train(demo.build("SDPA", seed=0), train, steps, seed=0))) == steps


def test_bad_settings(tmp_path):
    with pytest.raises(ValueError, match="steps must be at least 1"):
        demo.run_demo(tmp_path, steps=0)
    for seed in (0, 100):  # these are what the settings were chosen on
        with pytest.raises(ValueError, match=f"seed must be 1 to 99, got {seed}"):
            demo.run_demo(tmp_path, seed=seed)
    with pytest.raises(ValueError, match="spread must lie in"):
        demo.run_demo(tmp_path, spread=0.2)
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        demo.run_demo(tmp_path / "file")


def test_ctrl_c_leaves_no_file(tmp_path, monkeypatch):
    def interrupted(*_args):
        yield 1.0
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "_train", interrupted)
    with pytest.raises(KeyboardInterrupt):
        demo.run_demo(tmp_path)
    assert list(tmp_path.iterdir()) == []


# --- errors and controls ------------------------------------------------------------------------------------


def test_the_errors_are_of_the_right_parts():
    target = torch.zeros(2, 150, 2)
    guess = target.clone()
    guess[:, HALF:, 0], guess[:, HALF:, 1] = 3.0, -4.0
    guess[0, :HALF] = 1.0
    assert demo._errors(guess, target) == {
        "rmse": {"interpolation": 1.0, "extrapolation": 5.0},
        "mae": {"interpolation": 1.0, "extrapolation": 7.0},
    }


def test_straight_lines_interpolate_and_then_hold():
    _, test = make_spirals()
    control = demo._straight_lines(test)
    assert control.shape == test.target.shape
    torch.testing.assert_close(control[:, -1], test.x[:, -1].double(), check_dtype=False)
    errors = demo._errors(control, test.target)["rmse"]
    assert errors["interpolation"] < 0.02 < errors["extrapolation"]


def test_the_family_average_knows_the_family_only():
    train, test = make_spirals()
    average = demo._family_average(train, test)
    assert torch.equal(average[test.clockwise][0], train.target[train.clockwise].mean(0))
    assert len(average.unique(dim=0)) == 2


# --- the report ---------------------------------------------------------------------------------------------


def test_the_report_stands_alone(page, result):
    assert page.open == []
    assert "http" not in page.source
    assert "//" not in "".join(v or "" for tag, a in page.tags for v in a.values() if tag != "img")
    assert {tag for tag, _ in page.tags}.isdisjoint({"script", "link", "iframe", "a", "object"})
    images = [attributes for tag, attributes in page.tags if tag == "img"]
    assert all(image["alt"] for image in images)
    head = "data:image/png;base64,"
    assert all(image["src"].startswith(head) for image in images)
    stored = [base64.b64decode(image["src"].removeprefix(head)) for image in images]
    assert stored == [f.read_bytes() for f in result.files[2:]]


def test_the_report_holds_all_numbers(page, result):
    rows = {**result.models, **result.controls}
    assert list(rows) == ["NAC", "SDPA", "CfC", *CONTROLS]
    for name, errors in rows.items():
        assert name in page.text
        for metric in ("rmse", "mae"):
            for value in errors[metric].values():
                assert f"{value:.4f}" in page.text
    for size in result.parameters.values():
        assert f"{size['all']:,} ({size['core']:,})" in page.text


def test_the_report_says_what_it_is_about(page, result):
    versions = f"nacre {result.versions['nacre']}, torch {result.versions['torch']}"
    assert f"seed 1, steps 40, spread 0.02, {versions}" in page.text
    assert "chosen on spirals of other seeds (0, and 100 and up), not on the spirals shown" in page.text


def test_the_lowest_of_a_column_is_bold(page, result):
    bold = page.source.split("<tbody>")[1].split("</tbody>")[0].count("<b>")
    assert bold == 4
    rows = {**result.models, **result.controls}.values()
    assert f"<b>{min(r['mae']['extrapolation'] for r in rows):.4f}</b>" in page.source


@pytest.mark.parametrize(("width", "has_mae"), [(80, False), (140, True)])
def test_the_console_table_fits(result, width, has_mae):
    screen = io.StringIO()
    demo_report.print_table(result, Console(width=width, file=screen))
    text = screen.getvalue()
    assert max(map(len, text.splitlines())) <= width
    assert ("MAE" in text) == has_mae
    flat = " ".join(text.split())
    assert "other seeds (0, and 100 and up), not on the spirals shown" in flat
    assert "…" not in flat
    for name, errors in result.models.items():
        assert f"{name} " in flat
        assert f"{errors['rmse']['extrapolation']:.4f}" in flat


def test_a_failed_write_leaves_nothing_behind(tmp_path, monkeypatch):
    def full_disk(*_args):
        raise OSError("No space left on device")

    (tmp_path / "a.png").write_bytes(b"old")
    monkeypatch.setattr("nacre.io.os.replace", full_disk)
    with pytest.raises(OSError, match="No space left"):
        demo_report.write_atomic(tmp_path / "a.png", b"new")
    assert [f.read_bytes() for f in tmp_path.iterdir()] == [b"old"]


def test_the_tool_for_several_seeds_writes_every_error(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "tools"))
    import demo_seeds

    written = {}
    monkeypatch.setattr(demo_seeds, "SEEDS", (1, 2))
    monkeypatch.setattr(demo_seeds, "STEPS", 1)
    monkeypatch.setattr(
        demo_seeds, "write_result", lambda name, result: written.update({name: result}) or Path(__file__)
    )
    demo_seeds.main()
    result = written["spirals-demo.json"]
    assert {"command", "commit", "host", "versions"} <= set(result)
    for metric in ("rmse", "mae"):
        assert list(result[metric]) == [*CORES, *CONTROLS]
        for errors in result[metric].values():
            assert [len(errors[part]) for part in ("interpolation", "extrapolation")] == [2, 2]
