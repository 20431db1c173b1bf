"""What is tuned is found, noise is found in one recording of twenty, and the statistics are the textbook's."""

import itertools

import numpy as np
import pytest
import zarr
from scipy.stats import f_oneway
from sklearn.metrics import mutual_info_score

from nacre.data.dataset import UNSCORED
from nacre.inspect.analysis import association
from nacre.inspect.analysis.association import PermutationControl, Permuted, threshold
from nacre.inspect.analysis.gates import gate_by_label
from nacre.inspect.analysis.tuning import tuning
from nacre.inspect.recording.writer import STORE
from support.hypothesis import DEEP
from support.inspect import GATES, NEURONS, slow, slow_labels, write

STILL = (1, NEURONS + 2)  # head and column of what never changes
CLASSES = {"classes": True, "outputs": ("a", "b", "c")}


def steps_of(random, *lengths):
    return [slow(random, n, 2 * NEURONS).reshape(n, 2, NEURONS) for n in lengths]


def scores(labels):
    """Scores of classes of which these win."""
    return [np.eye(3)[x] for x in labels]


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """Two samples; neuron 7 of head 1 and omega of head 0 follow the label, all else is noise."""
    random = np.random.default_rng(1)
    states, labels = steps_of(random, 220, 150), [slow_labels(random, n) for n in (220, 150)]
    gates = [slow(random, n, 10).reshape(n, 2, 5) for n in (220, 150)]
    for x, gate, label in zip(states, gates, labels, strict=True):
        x[:, 1, 7] = label + 0.3 * random.normal(size=len(label))
        gate[:, 0, 1] = 0.5 + 0.1 * (label == 2) + 0.01 * random.normal(size=len(label))
        gate[:, 1, 2] = 0.25 + 1e-7 * label  # never changes but for rounding
        x[:, 0, 2] = (3 * x[:, 0, 2]).round()  # has ties
    truth = [x.copy() for x in labels]
    truth[1][20:50] = UNSCORED
    recording = write(
        tmp_path_factory.mktemp("mixed") / "r", states, scores(labels), gates=gates, truth=truth, **CLASSES
    )
    kept = [t != UNSCORED for t in truth]
    x = np.concatenate([np.concatenate([s, g], 2)[k] for s, g, k in zip(states, gates, kept, strict=True)])
    label = np.concatenate([t[k] for t, k in zip(truth, kept, strict=True)])
    return recording, x.astype(np.float32).astype(np.float64), label, tuning(recording)


def test_information_is_that_of_the_bins(mixed):
    _, x, label, found = mixed
    assert found.information.shape == (2, NEURONS + len(GATES))
    for head in range(2):
        for column in range(x.shape[2]):
            values = x[:, head, column]
            cut = np.digitize(values, np.quantile(values, np.arange(1, 8) / 8))
            bits = mutual_info_score(cut, label) / np.log(2) if (head, column) != STILL else 0
            assert found.information[head, column] == pytest.approx(bits, abs=1e-9)


def test_f_and_means_are_those_of_an_analysis_of_variance(mixed):
    _, x, label, found = mixed
    for head in range(2):
        for column in range(x.shape[2]):
            groups = [x[label == i, head, column] for i in range(3)]
            np.testing.assert_allclose(found.means[head, column], [g.mean() for g in groups], rtol=1e-9)
            if (head, column) != STILL:
                assert found.f[head, column] == pytest.approx(f_oneway(*groups).statistic, rel=1e-9)
    assert found.counts.tolist() == np.bincount(label).tolist()
    assert found.steps == len(label) == 340
    assert (found.f[STILL], found.information[STILL], found.p[STILL], found.f_p[STILL]) == (0, 0, 1, 1)


def test_followers_are_found_and_noise_is_not(mixed):
    *_, found = mixed
    expected = np.zeros_like(found.above)
    expected[1, 7] = expected[0, NEURONS + 1] = True
    np.testing.assert_array_equal(found.above, expected)
    np.testing.assert_array_equal(found.f > found.f_threshold, expected)
    assert (found.p[expected] == 1 / 201).all()
    assert (found.information[expected] > 3 * found.null[expected]).all()
    noise = ~expected
    noise[STILL] = False
    assert found.information[noise].mean() == pytest.approx(found.null[noise].mean(), rel=0.25)
    assert found.control is PermutationControl.SHIFT


def test_rows_begin_with_what_tells_most(mixed):
    *_, found = mixed
    rows = found.rows()
    assert len(rows) == found.p.size
    assert {(row["head"], row["group"], row["index"]) for row in rows[:2]} == {(1, "inter", 1), (0, "omega", -1)}
    assert [row["above"] for row in rows].count(True) == 2
    assert all(a["information"] >= b["information"] for a, b in itertools.pairwise(rows))
    at = (1, found.columns.index("inter 1"))
    follower = next(row for row in rows if row["head"] == 1)
    assert follower["mean c"] == found.means[at][2]
    assert (follower["f"], follower["p"], follower["null"]) == (found.f[at], found.p[at], found.null[at])


@pytest.mark.slow
def test_one_family_of_slow_noise_in_twenty_is_above(tmp_path):
    """Labels and neurons are slow: shuffled steps would call nearly every recording tuned."""
    random = np.random.default_rng(2)
    wrong = wrong_f = low = 0
    # Of a binomial of 60 times 5 %, more than 9 have a chance of 0.1 %; of 24 times 5 %, more than 5.
    count, most = (60, 9) if DEEP else (24, 5)
    blank = [np.zeros(n, np.int64) for n in (150, 90)]
    recording = write(tmp_path / "r", steps_of(random, 150, 90), scores(blank), truth=blank, **CLASSES)
    arrays = zarr.open_group(tmp_path / "r" / STORE, mode="r+")
    for i in range(count):
        for sample, n in enumerate((150, 90)):
            arrays["layers/0-layer/states"][sample, :n] = slow(random, n, 2 * NEURONS).reshape(n, 2, NEURONS)
            arrays["truth"][sample, :n] = slow_labels(random, n)
        found = tuning(recording, permutations=99, seed=i)
        wrong += found.above.any()
        wrong_f += (found.f > found.f_threshold).any()
        low += (found.p[:, :NEURONS] <= 0.05).mean() / count
    assert wrong <= most
    assert wrong_f <= most
    assert 0.02 < low < 0.09


def test_labels_turn_within_their_samples():
    label, lengths = np.arange(12), np.array([5, 1, 6])
    drawn = np.concatenate(list(Permuted(label, lengths, PermutationControl.SHIFT, 300, seed=0).blocks()))
    seen = set()
    for one in drawn:
        parts = np.split(one, [5, 6])
        offsets = [int(part.min() - part[0]) % len(part) for part in parts]
        for part, offset, first in zip(parts, offsets, (0, 5, 6), strict=True):
            np.testing.assert_array_equal(np.roll(part, -offset), np.arange(first, first + len(part)))
        seen.add((offsets[0], offsets[2]))
    assert seen == {(i, j) for i in range(5) for j in range(6)}


def test_threshold_lets_one_in_twenty_through():
    for count in (19, 20, 39, 99, 200):
        best = np.random.default_rng(count).permutation(count).astype(float)
        # The truth is as likely as any permutation to be the best but k.
        beyond = sum(threshold(np.delete(np.append(best, count), i)) < v for i, v in enumerate([*best, count]))
        assert 0 < beyond / (count + 1) <= 0.05
    assert threshold(np.arange(18.0)) == np.inf


@pytest.mark.slow
def test_answers_to_whole_samples_are_permuted_among_them(tmp_path):
    random = np.random.default_rng(3)
    labels = random.permutation(np.arange(24) % 3)
    states = steps_of(random, *random.integers(5, 12, 24))
    for x, label in zip(states, labels, strict=True):
        x[:, 0, 3] += 6 * label
        x[:, 1, 4] = 9 * label * (np.arange(len(x)) - (len(x) - 1) / 2)  # a mean of 0, whatever the label
    answers = scores(labels[:, None])
    recording = write(
        tmp_path / "r", states, answers, truth=[labels[i : i + 1] for i in range(24)], once=True, **CLASSES
    )
    found = tuning(recording, permutations=99)
    assert (found.control, found.steps, found.bins) == (PermutationControl.SAMPLES, 24, 6)
    means = np.stack([x.astype(np.float32).astype(float).mean(0) for x in states])
    f = f_oneway(*(means[labels == i, 0, 3] for i in range(3))).statistic
    assert found.f[0, 3] == pytest.approx(f, rel=1e-6)
    assert found.above[0, 3]
    assert found.above.sum() == 1
    said = tuning(recording, what="answer", permutations=99)
    np.testing.assert_array_equal(said.information, found.information)


def test_constant_labels_of_samples_count_as_one_each(tmp_path):
    """Shifting them would change nothing, and counting steps would make much of little."""
    random = np.random.default_rng(4)
    labels = [np.full(8, i % 2) for i in range(12)]
    recording = write(tmp_path / "r", steps_of(random, *[8] * 12), scores(labels), truth=labels, **CLASSES)
    found = tuning(recording, permutations=19)
    assert (found.control, found.steps, found.counts.tolist()) == (PermutationControl.SAMPLES, 12, [6, 6, 0])
    assert np.isnan(found.means[..., 2]).all()
    assert {row["mean c"] for row in found.rows()} == {None}
    rows = gate_by_label(recording, "phi").rows()
    assert {row["label"] for row in rows} == {"a", "b"}
    assert {row["steps"] for row in rows} == {48}


@pytest.mark.slow
def test_blocks_change_nothing(mixed, monkeypatch):
    recording, *_, found = mixed
    again = tuning(recording, permutations=40)
    monkeypatch.setattr(association, "_ELEMENTS", 20_000)
    small = tuning(recording, permutations=40)
    for name in ("information", "null", "f", "p", "f_p", "means"):
        np.testing.assert_allclose(getattr(small, name), getattr(again, name), rtol=1e-12)
    assert small.threshold == again.threshold != found.threshold
    assert tuning(recording, permutations=40, seed=1).threshold != again.threshold


def test_who_is_as_good_as_the_truth_counts():
    """With one step there is one shift: every permutation is the truth."""
    permuted = Permuted(np.array([0, 1, 2]), np.array([1, 1, 1]), PermutationControl.SHIFT, 10, seed=0)
    (drawn,) = permuted.blocks()
    assert (drawn == [0, 1, 2]).all()


def test_a_gate_by_label(mixed):
    recording, x, label, _ = mixed
    found = gate_by_label(recording, "omega")
    omega = x[:, :, NEURONS + 1]
    for i in range(3):
        values = omega[label == i]
        np.testing.assert_allclose(found.mean[:, i], values.mean(0))
        np.testing.assert_allclose(found.std[:, i], values.std(0))
        np.testing.assert_allclose(found.quartiles[:, i].T, np.quantile(values, [0.25, 0.5, 0.75], axis=0))
        np.testing.assert_allclose(found.all_heads[i, :2], [values.mean(), values.std()])
        assert found.all_heads[i, 3] == pytest.approx(np.median(values))
    rows = found.rows()
    assert len(rows) == 9
    assert rows[0]["head"] == -1
    row = next(row for row in rows if row["head"] == 1 and row["label"] == "b")
    assert (row["mean"], row["upper quartile"]) == (found.mean[1, 1], found.quartiles[1, 1, 2])
    assert row["steps"] == (label == 1).sum()


def test_what_cannot_be_asked(mixed, tmp_path):
    recording, *_ = mixed
    with pytest.raises(ValueError, match="gate must be one of 'phi', 'omega'.*got 'omegas'; did you mean 'omega'"):
        gate_by_label(recording, "omegas")
    with pytest.raises(ValueError, match="bins must be at least 2, got 1"):
        tuning(recording, bins=1)
    with pytest.raises(ValueError, match="permutations must be at least 1"):
        tuning(recording, permutations=0)
    states = steps_of(np.random.default_rng(0), 20)
    alike = [np.zeros(20, np.int64)]
    one = write(tmp_path / "one", states, scores(alike), truth=alike, **CLASSES)
    with pytest.raises(ValueError, match="at least two labels that repeat, got 'truth' with a 1 in 1 samples"):
        tuning(one)
    none = write(tmp_path / "none", states, scores(alike), truth=[np.full(20, UNSCORED)], **CLASSES)
    with pytest.raises(ValueError, match="got 'truth' with none"):
        tuning(none)
    states[0][3, 1, 0] = np.nan
    labels = [np.arange(20) % 3]
    lost = write(tmp_path / "lost", states, scores(labels), truth=labels, **CLASSES)
    with pytest.raises(ValueError, match="states must be finite, got NaN or infinity in 'query 0'"):
        tuning(lost)


def test_too_few_samples_say_that_nothing_can_be_significant(tmp_path):
    random = np.random.default_rng(3)
    for samples, ways in ((4, "in 6 ways only, 20 needed"), (6, "1 bits, all there are"), (24, "")):
        labels = [np.full(30, i % 2) for i in range(samples)]
        states = steps_of(random, *[30] * samples)
        for x, label in zip(states, labels, strict=True):
            x[:, 1, 7] = label + 0.01 * random.normal(size=30)  # as tuned as can be
        truth = [label[:1] for label in labels]
        recording = write(tmp_path / str(samples), states, scores(labels), truth=truth, once=True, **CLASSES)
        found = tuning(recording)
        assert found.control is PermutationControl.SAMPLES
        assert bool(found.above.any()) == (samples == 24)
        assert found.hopeless.endswith(ways)
        assert (found.hopeless == "") == (ways == "")
