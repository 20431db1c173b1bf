"""Classifier and Regressor: what they learn, in which forms they take data, and what they say when it is wrong."""

import signal

import lightning as L
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import nacre
from nacre.data import SplitBy, from_arrays, make_splits
from nacre.tasks.recipe import Profile, Recipe
from nacre.tasks.recipe_sections import NetworkRecipe, TrainingRecipe
from nacre.tasks.task import task_on
from nacre.train.cell import Cell
from nacre.train.predict import predict_csv
from nacre.train.run import Run
from nacre.train.run_cell import run_cell
from support.estimators import SMALL, as_frame, classifier, regressor, waves

pytestmark = pytest.mark.filterwarnings(
    "ignore:.* does not beat the control", "ignore:.* lies far outside", "ignore:nothing was observed"
)
X, TIME, Y = waves()
NEW, WHEN, TRUTH = waves(10, seed=1)


@pytest.fixture(scope="module")
def fitted():
    return classifier().fit(X, Y, time=TIME)


def test_it_learns_and_says_what_controls_reach(fitted):
    assert fitted.score(NEW, TRUTH, time=WHEN) >= 0.9
    shares = fitted.predict_proba(NEW, time=WHEN)
    assert shares.shape == (10, 2)
    np.testing.assert_allclose(shares.sum(1), 1, rtol=1e-6)
    assert (fitted.classes_[shares.argmax(1)] == fitted.predict(NEW, time=WHEN)).all()
    assert list(fitted.classes_) == ["other", "same"]
    assert {"majority", "linear", "time-only"} == set(fitted.controls_)
    assert fitted.metric_ == "accuracy"
    assert fitted.valid_score_ > max(fitted.controls_.values())
    assert fitted.n_steps_ <= 40
    assert fitted.history_[-1]["step"] == fitted.n_steps_


@pytest.mark.slow
def test_a_list_an_array_and_frames_are_the_same():
    short = {"max_steps": 3}
    wanted = classifier(**short).fit(X, Y, time=TIME).predict_proba(NEW, time=WHEN)
    frames = [pd.DataFrame(x, columns=["wave", "slope"]) for x in X]
    by_list = classifier(**short).fit(frames, Y, time=TIME)
    new = [pd.DataFrame(x, columns=["wave", "slope"])[["slope", "wave"]] for x in NEW]  # by name, in any order
    assert (by_list.predict_proba(new, time=WHEN) == wanted).all()
    frame = as_frame(X, TIME, Y)
    by_frame = classifier(**short).fit(frame, "state", time="hour", groups="who")
    assert (by_frame.predict_proba(as_frame(NEW, WHEN)) == wanted).all()
    assert list(by_frame.feature_names_in_) == ["wave", "slope"]
    arrow = pa.Table.from_pandas(frame)  # as polars hands over its frames
    by_arrow = classifier(**short).fit(arrow, "state", time="hour", groups="who")
    assert (by_arrow.predict_proba(pa.Table.from_pandas(as_frame(NEW, WHEN))) == wanted).all()
    labels = pd.Series(Y, [f"w{i}" for i in range(len(X))]).sample(frac=1, random_state=0)
    by_series = classifier(**short).fit(frame.drop(columns="state"), labels, time="hour", groups="who")
    assert (by_series.predict_proba(as_frame(NEW, WHEN)) == wanted).all()
    right = (by_frame.predict(as_frame(NEW, WHEN)) == TRUTH).mean()
    assert by_frame.score(as_frame(NEW, WHEN, TRUTH), "state") == right


@pytest.mark.slow
def test_the_numbers_are_those_of_the_command_line(tmp_path):
    who = [f"person {i // 2}" for i in range(32)]
    data = from_arrays(X, Y, time=TIME, group=who, name="waves", missing="flags")
    recipe = Recipe(
        "waves", network=NetworkRecipe(8, 2), training=TrainingRecipe(lr=0.02, steps=20, batch_size=16)
    )
    cell = Cell(task_on(recipe, data), "cfc-fc", 0, 3, Profile.STANDARD, tmp_path)
    result = run_cell(cell)
    split = make_splits(data, SplitBy.GROUP)[0]
    rest = sorted([*split.train.tolist(), *split.valid.tolist()])
    held_out = {who[i] for i in split.valid.tolist()}
    clf = classifier(random_state=3, max_steps=20).fit(
        [X[i] for i in rest], Y[rest], time=[TIME[i] for i in rest], groups=[who[i] for i in rest],
        validation=sorted(held_out),
    )  # fmt: skip
    test = split.test.tolist()
    mine = clf.predict_proba([X[i] for i in test], time=[TIME[i] for i in test])
    theirs = Run.open(cell.directory).predict([X[i] for i in test], time=[TIME[i] for i in test])
    assert (mine == theirs[["p(other)", "p(same)"]].to_numpy()).all()
    assert 100 * clf.score([X[i] for i in test], Y[test], time=[TIME[i] for i in test]) == result["value"]
    assert clf.valid_score_ == result["valid"]["accuracy"]


def test_held_out_groups_are_whole(monkeypatch):
    seen = {}
    monkeypatch.setattr(
        "nacre.estimators.base.train_held_out", lambda cell, *rest: seen.setdefault("cell", cell) and 1 / 0
    )
    who = np.arange(32) // 3
    with pytest.raises(ZeroDivisionError):
        classifier().fit(X, Y, time=TIME, groups=who)
    split = seen["cell"].split
    train, valid = ({*who[part.numpy()].tolist()} for part in (split.train, split.valid))
    assert train & valid == set()
    assert len(valid) == 2
    assert len(split.test) == 0
    assert len(split.train) + len(split.valid) == 32


def test_saved_it_is_a_run(fitted, tmp_path):
    place = fitted.save(tmp_path / "clf")
    again = nacre.Classifier.load(place)
    wanted = fitted.predict_proba(NEW, time=WHEN)
    assert (again.predict_proba(NEW, time=WHEN) == wanted).all()
    assert again.get_params() == {**fitted.get_params(), "random_state": 0}
    for name in ("controls_", "valid_score_", "metric_", "seed_", "n_steps_", "notes_", "history_"):
        assert getattr(again, name) == getattr(fitted, name), name
    assert isinstance(nacre.load(place), nacre.TaskNetwork)
    run = Run.open(place)
    assert run.result.final
    table = run.predict(NEW, time=WHEN)
    assert (table[["p(other)", "p(same)"]].to_numpy() == wanted).all()
    as_frame(NEW, WHEN, names=("x0", "x1")).rename(columns={"who": "sequence", "hour": "time"}).to_csv(
        tmp_path / "new.csv", index=False
    )
    from_file = predict_csv(place, tmp_path / "new.csv")
    np.testing.assert_allclose(from_file[["p(other)", "p(same)"]], wanted, atol=1e-6)
    assert clone(again).get_params() == again.get_params()
    fitted.save(place, examples=False)  # replaces the run
    assert not (place / "examples").exists()
    with pytest.raises(ValueError, match="holds other files"):
        fitted.save(tmp_path)


def test_view_and_inspect_open_what_was_saved(tmp_path):
    from nacre.inspect.recording.run import record_run

    clf = classifier(max_steps=2).set_params(model="nac-plus").fit(X, Y, time=TIME, groups=np.arange(32) // 2)
    recording = record_run(clf.save(tmp_path / "clf"), 3)
    assert recording.samples == 3
    assert recording.about.outputs == ("other", "same")
    clf.save(tmp_path / "bare", examples=False)
    with pytest.raises(ValueError, match="examples=True"):
        record_run(tmp_path / "bare")


def test_a_trained_run_predicts_from_everything(tmp_path):
    as_frame(X, TIME, Y).to_csv(tmp_path / "waves.csv", index=False)
    as_frame(NEW, WHEN).to_csv(tmp_path / "new.csv", index=False)
    from nacre.tasks.task import load_task

    data = {"csv": str(tmp_path / "waves.csv"), "time": "hour", "target": "state", "group": "who"}
    training = TrainingRecipe(lr=0.02, steps=20, batch_size=16)
    task = load_task(Recipe("waves", data=data, network=NetworkRecipe(8, 2), training=training))
    cell = Cell(task, "cfc-fc", 0, 0, Profile.STANDARD, tmp_path)
    run_cell(cell)
    run = Run.open(cell.directory)
    wanted = predict_csv(cell.directory, tmp_path / "new.csv")
    pd.testing.assert_frame_equal(run.predict(tmp_path / "new.csv"), wanted)
    frame = pd.read_csv(tmp_path / "new.csv").rename(columns={"hour": "when"})
    shuffled = frame[["slope", "when", "who", "wave"]]
    pd.testing.assert_frame_equal(run.predict(shuffled, time="when"), wanted)
    from_arrays = run.predict(NEW, time=WHEN)
    np.testing.assert_allclose(from_arrays["p(other)"], wanted["p(other)"], atol=1e-5)
    assert (nacre.Classifier.load(cell.directory).predict(frame, time="when") == wanted["prediction"]).all()
    with pytest.raises(ValueError, match="'slope'"):
        run.predict(frame.drop(columns="slope"), time="when")
    with pytest.raises(ValueError, match="run of classification, which a Regressor does not answer"):
        nacre.Regressor.load(cell.directory)


def test_labels_stay_what_they_were(tmp_path):
    numbers = np.where(Y == "same", 7, 3)
    clf = classifier(max_steps=3)
    clf.fit(X, numbers, time=TIME)
    assert clf.classes_.tolist() == [3, 7]
    assert clf.predict(NEW, time=WHEN).dtype == numbers.dtype
    again = nacre.Classifier.load(clf.save(tmp_path / "clf"))
    assert again.classes_.dtype == numbers.dtype
    assert clf.fit(X, Y == "same", time=TIME).classes_.tolist() == [False, True]


def test_numbers_and_dates(tmp_path):
    speed = np.linspace(1, 2, 32)
    x = [np.full((len(t), 1), s) for s, t in zip(speed, TIME, strict=True)]
    start = np.datetime64("2024-03-01")
    dates = [start + (t * 3600e6).astype("timedelta64[us]") for t in TIME]
    reg = regressor(max_steps=20).fit(x, speed, time=dates)
    again = nacre.Regressor.load(reg.save(tmp_path / "reg"))
    found = again.predict(x, time=dates)
    assert found.shape == (32,)
    assert reg.score(x, speed, time=dates) > 0
    later = [d + np.timedelta64(1000, "D") for d in dates]  # float32 seconds would move these by minutes
    np.testing.assert_allclose(again.predict(x, time=later), found, atol=1e-6)
    with pytest.raises(ValueError, match="training had dates, from 2024-03-01"):
        reg.predict(x, time=TIME)
    several = regressor(max_steps=2).fit(x, np.stack([speed, -speed], 1), time=TIME)
    assert several.predict(x[:4], time=TIME[:4]).shape == (4, 2)


def test_an_answer_for_each_step():
    above = [abs(x[:, 0]) > 1 for x in X]
    clf = classifier(max_steps=20).fit(X, above, time=TIME)
    found = clf.predict(NEW, time=WHEN)
    assert [len(part) for part in found] == [len(t) for t in WHEN]
    truth = [abs(x[:, 0]) > 1 for x in NEW]
    assert clf.score(NEW, truth, time=WHEN) == (np.concatenate(found) == np.concatenate(truth)).mean()
    frame = as_frame(X, TIME).assign(up=np.concatenate(above))
    of_rows = classifier(max_steps=20).fit(frame, "up", time="hour", groups="who")
    shuffled = as_frame(NEW, WHEN).sort_values("hour", kind="stable")  # the rows of all sequences are mixed
    mixed = pd.Series(of_rows.predict(shuffled), shuffled.index).sort_index()
    assert (mixed.to_numpy() == np.concatenate(found)).all()


def test_missing_values_as_they_come():
    random = np.random.default_rng(0)
    holes = [np.where(random.random(x.shape) < 0.3, np.nan, x) for x in X]
    for missing in ("flags", "last", "events"):
        clf = classifier(max_steps=2, missing=missing).fit(holes, Y, time=TIME)
        unseen = [np.where([[True, False]], np.nan, x) for x in NEW]  # nothing at all of one feature
        assert np.isfinite(clf.predict_proba(unseen, time=WHEN)).all()
    with pytest.raises(ValueError, match="missing='flags'"):
        classifier(missing="error").fit(holes, Y, time=TIME)


def test_a_warning_where_a_control_is_as_good():
    random = np.random.default_rng(0)
    with pytest.warns(UserWarning, match=r"does not beat the control '.*' on the held-out part: accuracy"):
        classifier(max_steps=1).fit(X, random.permutation(Y), time=TIME)


def test_features_far_outside_are_named(fitted):
    with pytest.warns(UserWarning, match="'x0' lies far outside of what training saw"):
        fitted.predict([x * 100 for x in NEW], time=WHEN)


class Interrupt(L.Callback):
    """Ctrl-C after so many steps."""

    def __init__(self, after):
        self.after = after

    def on_train_batch_end(self, trainer, *rest):
        if trainer.global_step == self.after:
            signal.raise_signal(signal.SIGINT)


def test_ctrl_c_keeps_the_best_so_far():
    with pytest.warns(UserWarning, match="interrupted after 25 of 40 steps; the weights are those of step"):
        clf = classifier(callbacks=[Interrupt(25)]).fit(X, Y, time=TIME)
    assert clf.n_steps_ == 25
    assert clf.predict(NEW, time=WHEN).shape == (10,)
    with pytest.raises(KeyboardInterrupt):  # there is nothing to keep yet
        classifier(callbacks=[Interrupt(1)]).fit(X, Y, time=TIME)


def test_a_logger_of_lightning_hears_the_losses(tmp_path):
    from lightning.pytorch.loggers import CSVLogger

    classifier(max_steps=2, logger=CSVLogger(tmp_path)).fit(X, Y, time=TIME)
    assert "valid_loss" in next(tmp_path.rglob("metrics.csv")).read_text()


WRONG = {
    "empty": (lambda: ([], [], []), "x must hold at least one sequence"),
    "fewer answers": (lambda: (X, Y[:7], TIME), "y must hold 32 items, one for each sequence, got 7"),
    "stamps go back": (lambda: (X, Y, [t[::-1] for t in TIME]), "time must not go back within a sequence"),
    "one class": (lambda: (X, ["calm"] * 32, TIME), "two classes or more, got 'calm'"),
    "no stamps for a step": (lambda: (X, Y, [t[:-1] for t in TIME]), "time must have shape"),
    "a name": (lambda: (X, Y, "hour"), "time='hour' names a column, but X holds arrays"),
    "other widths": (lambda: ([*X[:-1], X[-1][:, :1]], Y, TIME), "x must have shape"),
}


@pytest.mark.parametrize("case", WRONG)
def test_bad_data_is_refused(case):
    make, message = WRONG[case]
    x, y, time = make()
    with pytest.raises(ValueError, match=message):
        classifier().fit(x, y, time=time)


BAD = {
    "max_steps": (0, "max_steps must be at least 1"),
    "model": ("nca", "nac"),
    "missing": ("mean", "missing must be one of 'error', 'flags'"),
    "columns": ({"statics": ["age"]}, "did you mean 'static'"),
    "device": ("tpu", "device must be one of"),
    "learning_rate": (-1.0, "learning_rate must lie in"),
    "options": ({"top_q": 3}, "top_q"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_arguments_are_refused(name):
    value, message = BAD[name]
    with pytest.raises((ValueError, TypeError), match=message):
        classifier().set_params(**{name: value}).fit(X, Y, time=TIME)


def test_frames_that_lack_something_are_refused(fitted):
    frame = as_frame(X, TIME, Y)
    with pytest.raises(ValueError, match="time must be the name of its column of stamps, got nothing; there are"):
        classifier().fit(frame, "state", groups="who")
    with pytest.raises(ValueError, match="groups='whom' is no column of X; did you mean 'who'?"):
        classifier().fit(frame, "state", time="hour", groups="whom")
    with pytest.raises(ValueError, match="one answer for each of the 32 sequences"):
        classifier().fit(frame, Y[:9], time="hour", groups="who")
    with pytest.raises(ValueError, match="X has 1 features, but training had 2: x0, x1"):
        fitted.predict([x[:, :1] for x in NEW], time=WHEN)
    with pytest.raises(ValueError, match="time must not go back"):
        fitted.predict(NEW, time=[t[::-1] for t in WHEN])
    with pytest.raises(ValueError, match="at least one sequence"):
        fitted.predict([])
    with pytest.raises(ValueError, match="class 'still', which fit never saw; it knows other, same"):
        fitted.score(NEW, ["still"] * 10, time=WHEN)
    with pytest.raises(ValueError, match="no group is called 'w99'"):
        classifier().fit(X, Y, time=TIME, validation=["w99"])


def test_before_fit_it_says_so():
    for call in (
        lambda c: c.predict(NEW),
        lambda c: c.score(NEW, TRUTH),
        lambda c: c.save("x"),
        lambda c: c.history_,
    ):
        with pytest.raises(NotFittedError, match="call fit"):
            call(classifier())
    with pytest.raises(FileNotFoundError, match="no finished run"):
        nacre.Classifier.load("nowhere")
    assert SMALL["max_steps"] == classifier().max_steps
