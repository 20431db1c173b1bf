"""Forecaster: at any moment, causal where asked; the next rows; and what it refuses."""

import numpy as np
import pandas as pd
import pytest
import torch

import nacre
from nacre.data.missing import Missing
from nacre.data.tables.arrays import read_rows
from nacre.data.tables.moments import ask
from nacre.tasks.controls import create_control
from nacre.train.predict import predict_csv
from nacre.train.run import Run

pytestmark = pytest.mark.filterwarnings("ignore:.* does not beat the control")
SMALL = {"d_model": 8, "num_heads": 2, "max_steps": 4, "learning_rate": 0.02, "random_state": 0}


def series(n=12, seed=0):
    """Waves with a second feature, their stamps, moments between and after them, and what the wave is then."""
    random = np.random.default_rng(seed)
    time = [np.sort(random.uniform(0, 6, random.integers(6, 10))) for _ in range(n)]
    phase = random.uniform(0, 6, n)
    x = [np.stack([np.sin(t + p), random.normal(size=len(t))], 1) for t, p in zip(time, phase, strict=True)]
    at = [random.uniform(t[0], 8, 5) for t in time]
    return x, time, at, [np.sin(a + p) for a, p in zip(at, phase, strict=True)]


X, TIME, AT, Y = series()


def forecaster(model="nac-plus", **changes):
    return nacre.Forecaster(model, **{**SMALL, **changes})


def rows_of(x, time):
    return read_rows(x, time, ["level", "other"], (), gaps=True)


def obviously(time, values, moment, causal):
    """Straight line between the neighbours of a moment, one at a time; the last value where none may follow."""
    before = [i for i, t in enumerate(time) if t <= moment]
    after = [] if causal else [i for i, t in enumerate(time) if t > moment]
    if not after:
        return values[before[-1]]
    a, b = before[-1], after[0]
    return values[a] + (values[b] - values[a]) * (moment - time[a]) / (time[b] - time[a])


@pytest.mark.parametrize("causal", [False, True])
def test_controls_are_straight_lines_and_the_last_value(causal):
    asked = ask(rows_of(X, TIME), AT, 0, answers=Y, causal=causal)
    data, every = asked.data, torch.arange(len(asked.data))
    found = {}
    for name in ("interpolation", "persistence"):
        control = create_control(name, data)
        control.fit(data, every)
        found[name] = control.predict(data, every)[:, 0].double().numpy()
    assert len(asked.row) == sum(map(len, AT))
    pairs = list(zip(asked.sequence, asked.place, strict=True))
    lines = [obviously(TIME[i], X[i][:, 0], AT[i][j], causal) for i, j in pairs]
    last = [X[i][TIME[i] <= AT[i][j]][-1, 0] for i, j in pairs]
    np.testing.assert_allclose(found["interpolation"], lines, atol=1e-5)
    np.testing.assert_allclose(found["persistence"], last, atol=1e-5)
    np.testing.assert_allclose(data.y[asked.row, 0], [Y[i][j] for i, j in pairs], atol=1e-6)


def test_questions_hold_their_moment_and_nothing_else():
    x = [np.where(np.arange(len(t))[:, None] == [[2, 3]], np.nan, v) for v, t in zip(X, TIME, strict=True)]
    for missing in (Missing.ERROR, Missing.FLAGS):
        data = ask(rows_of(X if missing is Missing.ERROR else x, TIME), AT, 0, missing=missing).data
        asks = data.query_only
        assert bool(data.time.diff()[data.start[1:] - 1].numel())
        blank = data.values[asks, :2]
        assert bool((blank == 0).all() if missing is Missing.ERROR else blank.isnan().all())
        assert data.values[asks, 2].unique().tolist() == [0]
        assert data.values[~asks, 2].unique().tolist() == [1]
        assert bool(data.values[:, 3].isfinite().all())


@pytest.mark.parametrize("model", [pytest.param("nac-plus", marks=pytest.mark.slow), "cfc-fc", "mtan"])
def test_answers_do_not_depend_on_what_else_is_asked(model):
    fc = forecaster(model).fit(X, Y, time=TIME, at=AT)
    together = fc.predict(X[:2], time=TIME[:2], at=AT[:2])
    for i in range(2):
        alone = [fc.predict(X[i : i + 1], time=TIME[i : i + 1], at=[[a]])[0][0] for a in AT[i]]
        np.testing.assert_allclose(together[i], alone, atol=1e-5)


def test_causal_answers_know_no_later_row():
    fc = forecaster(causal=True, target=0).fit(X, Y, time=TIME, at=AT)
    moment = (TIME[0][3] + TIME[0][4]) / 2
    changed = X[0].copy()
    changed[4:] += 100
    asked = {"time": TIME[:1], "at": [moment]}
    assert (fc.predict([changed], **asked)[0] == fc.predict(X[:1], **asked)[0]).all()
    seen = fc.predict([X[0][:4]], time=[TIME[0][:4]], at=[moment])
    np.testing.assert_allclose(seen[0], fc.predict(X[:1], **asked)[0], atol=1e-6)
    both = forecaster().fit(X, Y, time=TIME, at=AT)
    assert (both.predict([changed], **asked)[0] != both.predict(X[:1], **asked)[0]).all()


def test_forms_dates_and_the_disk(tmp_path):
    start = np.datetime64("2024-03-01")
    dated = [[start + (part * 3600e6).astype("timedelta64[us]") for part in parts] for parts in (TIME, AT)]
    fc = forecaster("cfc-fc", target="level", columns={"features": ["level", "other"]})
    fc.fit(X, Y, time=dated[0], at=dated[1])
    wanted = fc.predict(X, time=dated[0], at=dated[1])
    again = nacre.Forecaster.load(fc.save(tmp_path / "fc"))
    assert all((a == b).all() for a, b in zip(again.predict(X, time=dated[0], at=dated[1]), wanted, strict=True))
    frame = pd.concat(
        [
            pd.DataFrame(x, columns=["level", "other"]).assign(pump=i, when=t)
            for i, (x, t) in enumerate(zip(X, dated[0], strict=True))
        ]
    )
    of_frame = forecaster("cfc-fc", target="level").fit(frame, Y, time="when", groups="pump", at=dated[1])
    found = of_frame.predict(frame[["pump", "other", "when", "level"]], at=dated[1])
    np.testing.assert_allclose(np.concatenate(found), np.concatenate(wanted), atol=1e-5)
    assert [len(part) for part in of_frame.predict(frame)] == [24] * 12  # the next rows
    assert fc.score(X, Y, time=dated[0], at=dated[1]) < 1
    with pytest.raises(ValueError, match="Forecaster.load"):
        Run.open(tmp_path / "fc").predict(X)
    with pytest.raises(ValueError, match="Forecaster.load"):
        predict_csv(tmp_path / "fc", tmp_path / "new.csv")


def test_the_next_rows(tmp_path):
    hours = pd.date_range("2024-01-01", periods=200, freq="h")
    load = pd.DataFrame({"when": hours, "load": np.sin(np.arange(200) / 4), "wind": np.cos(np.arange(200) / 5)})
    fc = forecaster("cfc-fc", target="load", lookback=12, horizon=3).fit(load, time="when")
    assert {"persistence", "linear"} <= set(fc.controls_)
    wanted = fc.predict(load)
    assert wanted[0].shape == (3,)
    again = nacre.Forecaster.load(fc.save(tmp_path / "fc"))
    last = load.tail(12)
    arrays = again.predict([last[["load", "wind"]].to_numpy()], time=[last["when"]])
    np.testing.assert_allclose(arrays[0], wanted[0], atol=1e-6)
    with pytest.raises(ValueError, match="learned the next 3 rows; to ask at any moment, give at and Y in fit"):
        fc.predict(load, at=[0.0])


def test_missing_values_and_unknown_answers():
    random = np.random.default_rng(0)
    holes = [np.where((random.random(x.shape) < 0.3) & (np.arange(len(x)) > 0)[:, None], np.nan, x) for x in X]
    partly = [np.where(np.arange(5) == 2, np.nan, y) for y in Y]
    fc = forecaster("cfc-fc").fit(holes, partly, time=TIME, at=AT)
    assert all(np.isfinite(part).all() for part in fc.predict(holes, time=TIME, at=AT))
    with pytest.raises(ValueError, match="missing='flags'"):
        forecaster(missing="error").fit(holes, partly, time=TIME, at=AT)


EARLY = [[-1.0, 3.0]] * 12
WRONG = {
    "before the first": ({"at": EARLY, "Y": EARLY}, "moment -1 of sequence 0 lies before"),
    "only Y": ({"at": None}, "give at, too"),
    "only at": ({"Y": None}, "give Y, too"),
    "fewer lists": ({"at": AT[:3]}, "at must be one list for all, or one for each of the 12 sequences, got 3"),
    "fewer answers": ({"Y": [y[:2] for y in Y]}, "Y must hold a number for each moment of at: 5 in sequence 0"),
    "no moment": ({"at": [[]] * 12, "Y": [[]] * 12}, "at"),
    "not finite": ({"at": [[np.nan] * 5] * 12}, "finite moments"),
    "dates": ({"at": [["2024-01-01"] * 5] * 12}, "at"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_wrong_questions_are_refused(case):
    changes, message = WRONG[case]
    asked = {"at": AT, "Y": Y} | changes
    with pytest.raises(ValueError, match=message):
        forecaster().fit(X, asked["Y"], time=TIME, at=asked["at"])


def test_wrong_arguments_are_refused():
    fc = forecaster("cfc-fc")
    with pytest.raises(ValueError, match="target='speed' is no feature of X; there are x0, x1"):
        fc.set_params(target="speed").fit(X, Y, time=TIME, at=AT)
    with pytest.raises(ValueError, match="target must be at most 1"):
        fc.set_params(target=2).fit(X, Y, time=TIME, at=AT)
    fc.set_params(target=1).fit(X, Y, time=TIME, at=AT)
    with pytest.raises(ValueError, match="X has 1 features, but training had 2: x0, x1"):
        fc.predict([x[:, :1] for x in X], time=TIME, at=AT)
    with pytest.raises(ValueError, match="before the first observation of 'x1'"):
        fc.predict(X, time=TIME, at=[-5.0])
    empty = [np.full_like(X[0], np.nan), *X[1:]]
    with pytest.raises(ValueError, match="sequence 0 has no observation of the target"):
        fc.predict(empty, time=TIME, at=[6.0])
