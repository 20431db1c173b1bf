"""`nacre study recall`: the questions, the network, the runs, the table and the figure."""

import csv
import json

import pytest
import torch
from typer.testing import CliRunner

from nacre._util.locks import LockedElsewhere, hold_lock
from nacre.cli.app import app
from nacre.study import runs
from nacre.study.recall import command
from nacre.study.recall import run as recall_run
from nacre.study.recall.command import Recall, run_recall
from nacre.study.recall.data import VALUES, draw
from nacre.study.recall.run import RecallNetwork, RecallRun, guessed, score
from nacre.study.recall.table import read_results, rows_of
from nacre.study.runs import run_once
from nacre.study.spec import ModelSpec


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def quiet(step, loss):
    pass


@pytest.fixture(autouse=True)
def _few(monkeypatch):
    monkeypatch.setattr(recall_run, "_HELD_OUT", 48)
    monkeypatch.setattr(recall_run, "BATCH", 16)


def run(text="nac-plus", question="key", length=8, steps=3, seed=0):
    return RecallRun(question, ModelSpec.parse(text), length, steps, seed)


def test_the_last_step_repeats_the_key_of_one_item_and_shows_no_value():
    sample = draw("key", 50, 9, seeded())
    assert sample.time is None
    for x, answer, place in zip(sample.x, sample.answer, sample.place, strict=True):
        assert (x[:-1, :8] == x[-1, :8]).all(-1).nonzero().tolist() == [[place]]
        assert x[place, 8:12].argmax() == answer
        assert x[:, 12].tolist() == [0.0] * 8 + [1.0]
        assert (x[-1, 8:12] == 0).all()
        assert (x[:-1, 8:12].sum(-1) == 1).all()
    torch.testing.assert_close(sample.x[..., :8].norm(dim=-1), torch.full((50, 9), 2.0))
    assert set(sample.answer.tolist()) == set(range(VALUES))
    assert len(set(sample.place.tolist())) == 8


def test_the_last_step_asks_for_the_item_nearest_in_time_and_only_time_tells():
    sample = draw("time", 50, 9, seeded())
    for x, time, answer, place in zip(sample.x, sample.time, sample.answer, sample.place, strict=True):
        assert min(range(8), key=lambda i: abs(float(time[i]) - float(time[-1]))) == place
        assert x[place, 8:12].argmax() == answer
        gaps = time[1:-1] - time[:-2]
        assert 0.5 <= gaps.min() <= gaps.max() <= 1.5
        assert time[0] <= time[-1] <= time[-2]
        assert not any(torch.equal(x[i, :8], x[-1, :8]) for i in range(8))


def test_parity_the_last_step_alone_is_answered_as_in_the_whole_sequence():
    for text, question in (("nac", "time"), ("nac-plus", "key"), ("nac-plus", "time"), ("nac-pw", "key")):
        net = RecallNetwork(ModelSpec.parse(text))
        sample = draw(question, 6, 30, seeded())
        whole = net.read(net.layer(sample.x, time=sample.time)[:, -1])
        torch.testing.assert_close(net(sample), whole, msg=lambda told, case=(text, question): f"{case}: {told}")
        causal = RecallNetwork(ModelSpec.parse(f"{text}:causal=true"))
        assert causal(sample).shape == (6, VALUES)
        assert causal.found(sample) is None


def test_found_counts_the_choices_that_hold_the_item():
    sample = draw("key", 20, 12, seeded())
    assert RecallNetwork(ModelSpec.parse("nac-pw")).found(sample) == 1
    assert RecallNetwork(ModelSpec.parse("sdpa")).found(sample) is None
    net = RecallNetwork(ModelSpec.parse("nac:top_k=2,selection=exact"))
    _, trace = net.layer(sample.x, return_trace=True)
    hits = [sample.place[b] in trace.index[b, h, -1] for b in range(20) for h in range(trace.index.shape[1])]
    assert net.found(sample) == pytest.approx(sum(hits) / len(hits))
    assert net.layer.observer is None


def test_a_trained_network_is_asked_at_other_lengths_too(monkeypatch):
    monkeypatch.setattr(recall_run, "_HELD_OUT", 160)
    one = RecallRun("key", ModelSpec.parse("nac-plus"), 8, 3, 0, ask_at=(5, 40))
    got = one.do(quiet)
    assert [row["length"] for row in got["asked_at"]] == [5, 40]
    assert [row["accuracy"] * 20 % 1 for row in got["asked_at"]] == pytest.approx([0, 0])  # of 20 sequences each
    assert got["asked_at"][0]["found"] == 1 > got["asked_at"][1]["found"]  # 16 keys hold all of 5 steps
    assert got | {"asked_at": []} == run().do(quiet)


def test_a_guess_counts_values(monkeypatch):
    monkeypatch.setattr(recall_run, "_HELD_OUT", 200)
    sample = draw("key", 200, 9, seeded(1_000_003))
    right = 0
    for x, answer in zip(sample.x, sample.answer, strict=True):
        counts = x[:-1, 8:12].sum(0).tolist()
        right += counts.index(max(counts)) == answer
    assert guessed("key", 9) == pytest.approx(right / 200)
    assert 0.25 < guessed("key", 9) < 0.6


def test_scores_are_those_of_all_sequences_together():
    net = RecallNetwork(ModelSpec.parse("nac-plus")).eval()
    sample = draw("time", 50, 10, seeded())  # in batches of 16, 16, 16 and 2
    right = (net(sample).argmax(-1) == sample.answer).float().mean().item()
    got = score(net, sample)
    assert got["accuracy"] == pytest.approx(right)
    assert got["found"] == pytest.approx(net.found(sample))


def test_a_run_is_repeatable_and_its_curve_ends_at_its_score(monkeypatch):
    monkeypatch.setattr(recall_run, "_POINTS", 4)
    a, b = run(steps=10).do(quiet), run(steps=10).do(quiet)
    assert a["curve"] == b["curve"]
    assert [point["step"] for point in a["curve"]] == [0, 3, 6, 9, 10]
    assert a["curve"][-1] | {"loss": None} == {
        "step": 10,
        "loss": None,
        "accuracy": a["accuracy"],
        "found": a["found"],
    }
    assert run(steps=1, seed=1).do(quiet)["curve"][0] != a["curve"][0]
    assert a["top_k"] == 16


def test_training_changes_every_weight():
    spec = ModelSpec.parse("nac-plus")
    torch.manual_seed(0)
    before = [p.clone() for p in RecallNetwork(spec).parameters()]
    made = []

    class Kept(RecallNetwork):
        def __init__(self, spec):
            super().__init__(spec)
            made.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recall_run, "RecallNetwork", Kept)
        run(question="time").do(quiet)
    assert all((p != b).any() for p, b in zip(made[0].parameters(), before, strict=True))


def test_what_is_done_is_skipped_and_what_another_process_does_too(tmp_path):
    first = run_once(run(), tmp_path, quiet)
    path = run().path(tmp_path)
    assert json.loads(path.read_bytes()) == json.loads(json.dumps(first))
    assert first["seconds"] > 0
    assert first["provenance"]["commit"]
    assert run_once(run(), tmp_path, quiet) is None
    other = run(seed=5)
    with hold_lock(other.path(tmp_path).with_suffix(".lock")), pytest.raises(LockedElsewhere):
        run_once(other, tmp_path, quiet)
    assert not other.path(tmp_path).exists()


def test_an_interrupted_run_leaves_no_result(tmp_path):
    def stop(step, loss):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_once(run(), tmp_path, stop)
    assert read_results(tmp_path) == []
    assert run_once(run(), tmp_path, quiet) is not None


def test_rows_are_means_over_seeds():
    results = [run(seed=seed).do(quiet) for seed in range(3)]
    rows = {row.model: row for row in rows_of([*results, run("sdpa").do(quiet)])}
    row = rows["nac-plus"]
    assert (row.seeds, row.length, row.steps, row.question) == (3, 8, 3, "key")
    assert row.accuracy == pytest.approx(sum(r["accuracy"] for r in results) / 3)
    assert row.lowest == min(r["accuracy"] for r in results)
    assert row.found == pytest.approx(sum(r["found"] for r in results) / 3)
    assert rows["sdpa"].found is None


@pytest.mark.slow
def test_the_command_from_an_empty_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["study", "recall", "--length", "6", "--length", "9", "--steps", "2"]
    done = CliRunner().invoke(app, [*words, "-m", "nac", "-m", "sdpa", "--top-k", "2", "--top-k", "3"])
    assert done.exit_code == 0, done.output
    assert "5 items, 2 training steps" in done.output
    folder = tmp_path / "studies" / "recall"
    with (folder / "recall.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {(r["model"], r["length"]) for r in rows} == {
        (m, t) for m in ("nac:top_k=2", "nac:top_k=3", "sdpa") for t in ("6", "9")
    }
    assert (folder / "recall.png").read_bytes()[:4] == b"\x89PNG"
    again = CliRunner().invoke(app, [*words, "-m", "sdpa"])
    assert again.output.count("is done") == 2


def test_bad_input_is_refused_before_anything_is_run(tmp_path):
    for options, message in (
        ({"models": ["nak"]}, "unknown model"),
        ({"models": ["nac:depth=2"]}, "no option 'depth'"),
        ({"questions": ["colour"]}, "question"),
        ({"lengths": [2]}, "length"),
        ({"models": ["mtan"], "questions": ["time"]}, "mtan needs stamps in order"),
        ({"steps": 0}, "steps"),
        ({"seeds": 0}, "seeds"),
        ({"models": ["nac-2k"], "top_k": [4]}, "nac-2k means top_k=2"),
    ):
        with pytest.raises(ValueError, match=message):
            run_recall(Recall(**{"steps": 1, "out": tmp_path / "new", **options}))
        assert not (tmp_path / "new").exists(), options


def test_a_run_that_fails_is_named_and_the_others_go_on(tmp_path, monkeypatch, capsys):
    def fail_once(one, out, on_step):
        if one.seed == 0:
            raise RuntimeError("out of memory")
        return run_once(one, out, on_step)

    monkeypatch.setattr(runs, "run_once", fail_once)
    monkeypatch.setattr(command, "plot_recall", lambda results: b"")
    with pytest.raises(ValueError, match=r"1 of the runs failed:\n.*seed 0: out of memory"):
        run_recall(Recall(["nac"], lengths=[6], steps=1, seeds=2, out=tmp_path))
    assert [r["seed"] for r in read_results(tmp_path)] == [1]


def test_a_damaged_file_is_named(tmp_path):
    path = run().path(tmp_path)
    path.parent.mkdir(parents=True)
    for text in ("", "{}", "[]", '{"accuracy": 1, "curve": []}'):
        path.write_text(text)
        with pytest.raises(ValueError, match=r"nac-plus-seed0.json is damaged"):
            read_results(tmp_path)


@pytest.mark.slow
def test_nac_plus_learns_which_key_to_choose_and_the_papers_layer_does_not(monkeypatch):
    monkeypatch.setattr(recall_run, "_HELD_OUT", 200)
    monkeypatch.setattr(recall_run, "BATCH", 64)
    plus, paper = (run(name, length=32, steps=150).do(quiet) for name in ("nac-plus", "nac"))
    assert plus["accuracy"] > 0.95
    assert plus["found"] > plus["curve"][0]["found"] + 0.1
    assert paper["accuracy"] < 0.6


@pytest.mark.slow
def test_nac_plus_finds_what_is_near_in_time(monkeypatch):
    monkeypatch.setattr(recall_run, "_HELD_OUT", 200)
    monkeypatch.setattr(recall_run, "BATCH", 64)
    plus, blind = (run(name, "time", length=24, steps=150).do(quiet) for name in ("nac-plus", "sdpa"))
    assert plus["accuracy"] > 0.9
    assert blind["accuracy"] < guessed("time", 24) + 0.1
