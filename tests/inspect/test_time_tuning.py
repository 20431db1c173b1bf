"""What goes with elapsed time is found, what does not is not, and the statistics are the textbook's."""

import copy

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import f_oneway
from torch import nn

import nacre
from nacre.inspect import Lesion, lesioned, record, time_tuning
from nacre.inspect.analysis import pairs as pairs_module
from nacre.inspect.analysis.bin_sums import BinSums, edges_of, label_of, runs_of
from nacre.inspect.analysis.pairs import GATES, Pairs, pairs_of
from nacre.inspect.analysis.tuning import TooFewLabels
from nacre.inspect.recording.run import record_run
from support.drive import write_episodes, write_run
from support.hypothesis import DEEP, examples
from support.inspect_recordings import Cross

PLUS = {"clock": 4, "match": "start", "near": 6, "phi": "linear", "sensory_activation": "identity"}
WIDTH, STEPS = 8, 50


def slow(samples=4, steps=STEPS, seed=3):
    """Inputs that drift, and stamps at odd distances."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(samples, steps, WIDTH, generator=generator)
    for i in range(1, steps):
        x[:, i] = 0.9 * x[:, i - 1] + 0.43 * x[:, i]
    return x, torch.rand(samples, steps, generator=generator).cumsum(1) + 40


def layer_of(seed=0, **options):
    torch.manual_seed(seed)
    return nacre.NAC(WIDTH, 2, backbone_units=16, **options).eval()


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """A layer with a clock, its inputs, its recording, and what is found in it."""
    layer, (x, time) = layer_of(**PLUS), slow()
    recording = record(layer, x, time, out=tmp_path_factory.mktemp("seen") / "look", detail="means")
    return layer, x, time, recording, time_tuning(recording)


# Pairs


def states_of(trace):
    """[B, H, T, K, columns] what `pairs_of` keeps, from a trace."""
    neurons = [x for name in ("clock", "inter", "command", "motor") if (x := getattr(trace, name)) is not None]
    gates = [x.unsqueeze(-1) for name in GATES if (x := getattr(trace, name)) is not None]
    return torch.cat([*neurons, *gates], -1)


@pytest.mark.parametrize("timed", [True, False])
def test_pairs_are_those_of_the_forward_pass(timed, tmp_path):
    x, time = slow()
    padding = torch.zeros(4, STEPS, dtype=torch.bool)
    padding[1, 30:] = padding[2, 10:13] = True
    for layer in (layer_of(**PLUS), layer_of(causal=True)):
        stamps = time if timed else None
        recording = record(layer, x, stamps, padding, out=tmp_path / "look", detail="means")
        with torch.no_grad():
            _, trace = layer(x, time=stamps, key_padding_mask=padding, return_trace=True)
        moment = time.double() if timed else (~padding).cumsum(1).double()
        want = states_of(trace)
        for head, found in enumerate(pairs_of(recording, recording.layers["nac"], most=10**6)):
            where = trace.valid[:, head].nonzero()  # sample by sample, step by step
            row, step, _ = where.T
            index = trace.index[:, head][trace.valid[:, head]]
            np.testing.assert_allclose(found.elapsed, moment[row, step] - moment[row, index], rtol=0, atol=1e-9)
            np.testing.assert_allclose(found.states, want[:, head][trace.valid[:, head]], rtol=1e-5, atol=1e-6)
            lengths = trace.valid[:, head].sum(-1)
            assert found.lengths.tolist() == lengths[lengths > 0].tolist()
            assert found.sample.tolist() == (lengths > 0).nonzero()[:, 0].tolist()
            same_step = np.repeat(np.arange(len(found.lengths)), found.lengths)
            assert (np.diff(index)[np.diff(same_step) == 0] > 0).all()  # keys in their order


def test_of_many_pairs_whole_steps_are_chosen(seen):
    _, _, _, recording, found = seen
    layer = recording.layers["nac"]
    every, some = (pairs_of(recording, layer, most, seed=1)[0] for most in (10**6, 400))
    assert 200 < len(some.elapsed) < 700
    assert set(some.lengths) == {8}
    rows = {every.states[i : i + 8].tobytes() for i in range(0, len(every.states), 8)}
    assert {some.states[i : i + 8].tobytes() for i in range(0, len(some.states), 8)} < rows
    assert len(pairs_of(recording, layer, 400, seed=2)[0].elapsed) != len(some.elapsed)
    assert time_tuning(recording, most=400, permutations=1).pairs < found.pairs == 2 * len(every.elapsed)


def test_pairs_of_a_drive_are_those_of_the_last_frames(tmp_path, monkeypatch):
    write_episodes(tmp_path / "carracing", steps=30)
    run = tmp_path / "run"
    write_run(run, clock=2)
    recording = record_run(run, 1, data_dir=tmp_path, detail="pairs")
    monkeypatch.setattr(pairs_module, "_AT_ONCE", 7)
    (layer,) = recording.layers.values()
    length, time = layer.length(0), layer.time(0)
    for head, found in enumerate(pairs_of(recording, layer, most=10**6)):
        valid = np.asarray(layer.array("valid")[0, :length, head])
        index = np.asarray(layer.array("index")[0, :length, head])
        want = (time[:, None] - time[index])[valid]
        np.testing.assert_allclose(found.elapsed, want, rtol=0, atol=1e-6)
        clock, inter = (np.asarray(layer.array(name)[0, :length, head])[valid] for name in ("clock", "inter"))
        both = np.concatenate([clock, inter], 1)
        np.testing.assert_allclose(found.states[:, : both.shape[1]], both, rtol=1e-4, atol=1e-5)


def test_times_of_other_keys_are_not_known(tmp_path):
    class Saved(Cross):
        pass

    recording = record(Cross(), torch.randn(1, 9, 16), torch.rand(1, 9).cumsum(1), out=tmp_path / "look")
    recording.model = lambda: Saved()
    with pytest.raises(ValueError, match="layer must attend to its own steps, got 9 queries and 11 keys"):
        time_tuning(recording)


# Statistics


def test_strength_is_the_correlation_ratio_and_curves_are_means(seen):
    *_, recording, found = seen
    heads = pairs_of(recording, recording.layers["nac"], 2**14)
    edges = edges_of(np.concatenate([head.elapsed for head in heads]), 25)
    assert len(found.elapsed) == len(edges) + 1
    for h, head in enumerate(heads):
        label = np.digitize(head.elapsed, edges)
        assert found.counts[h].tolist() == np.bincount(label, minlength=len(edges) + 1).tolist()
        for column in range(len(found.columns)):
            groups = [head.states[label == i, column] for i in range(len(edges) + 1)]
            assert found.strength[h, column] == pytest.approx(ratio_of(head.states[:, column], label), rel=1e-6)
            np.testing.assert_allclose(found.means[h, column], [g.mean() for g in groups], rtol=1e-6, atol=1e-9)
            np.testing.assert_allclose(found.spread[h, column], [g.std() for g in groups], rtol=1e-5, atol=1e-7)
    everything = np.concatenate([head.elapsed for head in heads])
    label = np.digitize(everything, edges)
    np.testing.assert_allclose(found.elapsed, [everything[label == i].mean() for i in range(len(edges) + 1)])
    assert (np.diff(found.elapsed) > 0).all()


@examples(60)
@given(data=st.data(), bins=st.integers(2, 30))
def test_bins_are_in_order_not_empty_and_keep_equal_times_together(data, bins):
    times = data.draw(st.lists(st.sampled_from(np.arange(-3, 4, 0.1).tolist()), min_size=1, max_size=300))
    elapsed = np.array(times) + np.random.default_rng(0).normal(0, 1e-12, len(times))  # rounding of stamps
    edges = edges_of(elapsed, bins)
    label = label_of(elapsed, edges)
    assert len(edges) + 1 <= max(bins, 1)
    assert np.unique(label).tolist() == list(range(len(edges) + 1))
    rounded = elapsed.round(6)
    for value in np.unique(rounded):
        assert len(set(label[rounded == value])) == 1
    order = np.argsort(rounded)
    assert (np.diff(label[order]) >= 0).all()
    if len(np.unique(rounded)) <= bins:
        assert len(edges) + 1 == len(np.unique(rounded))
    elif len(np.unique(rounded)) > 2 * bins:
        assert len(edges) + 1 > bins / 3


def ratio_of(x, label):
    """The correlation ratio, squared, from the textbook's F."""
    groups = [x[label == i] for i in np.unique(label)]
    f, n, k = f_oneway(*groups).statistic, len(label), len(groups)
    return f * (k - 1) / (f * (k - 1) + n - k)


def test_flipped_runs_are_states_turned_over_around_the_means_of_their_steps():
    random = np.random.default_rng(0)
    lengths, sample = random.integers(1, 7, 40), np.repeat(np.arange(20), 2)
    n = lengths.sum()
    states = random.normal(size=(n, 3)) + np.repeat(random.normal(size=(40, 3)), lengths, 0)
    pairs = Pairs(random.normal(size=n), states, lengths, sample)
    edges = edges_of(pairs.elapsed, 6)
    sums = BinSums.of(pairs, edges)
    signs = random.choice([-1.0, 1.0], (5, 20))
    step = np.repeat(np.arange(40), lengths)
    mean = np.stack([states[step == i].mean(0) for i in range(40)])[step]
    for row, found in zip(signs, sums.strengths(signs), strict=True):
        other = mean + row[sample[step]][:, None] * (states - mean)
        want = [ratio_of(other[:, c], label_of(pairs.elapsed, edges)) for c in range(3)]
        np.testing.assert_allclose(found, want, rtol=1e-9)
    np.testing.assert_array_equal(sums.strength(), sums.strengths(np.ones((1, 20)))[0])


def test_runs_are_parts_of_samples_of_about_the_same_size():
    run = runs_of(np.repeat([3, 5], [100, 7]))
    assert np.bincount(run)[:8].tolist() == [13, 12, 13, 12, 13, 12, 13, 12]
    assert len(np.unique(run[100:])) == 7  # no more than it has steps
    assert set(run[:100]).isdisjoint(run[100:])
    assert (np.diff(run) >= 0).all()
    many = runs_of(np.repeat(np.arange(50), 9))
    np.testing.assert_array_equal(many, np.repeat(np.arange(50), 9))


# What is found


def test_the_clock_is_tuned_and_so_is_what_hears_it(seen):
    *_, found = seen
    groups = np.array([column.partition(" ")[0] for column in found.columns])
    fast = [found.columns.index(f"clock {i}") for i in (0, 4)]
    rest = [i for i in np.flatnonzero(groups == "clock") if i not in fast]
    assert (found.strength[:, rest] > 0.6).all()  # but for turns that are shorter than bins
    assert found.above[:, groups == "clock"].all()
    assert (found.p[:, groups == "clock"] == 1 / 201).all()
    assert found.above[:, groups == "inter"].mean() > 0.7
    assert (found.null < 0.5).all()
    assert np.isnan(found.silent[:, groups == "clock"]).all()
    assert np.nanmean(found.silent) < found.strength[:, groups != "clock"].mean() / 2


def test_silence_of_the_clock_is_that_of_the_lesioned_layer(seen, tmp_path):
    layer, x, time, _, found = seen
    quiet = record(lesioned(layer, [Lesion("clock")]), x, time, out=tmp_path / "quiet", detail="means")
    again = time_tuning(quiet, permutations=1)
    others = ~np.isnan(found.silent[0])
    np.testing.assert_allclose(found.silent[:, others], again.strength[:, others], rtol=1e-9)
    plain = record(layer_of(), x, time, out=tmp_path / "plain", detail="means")
    without = time_tuning(plain, permutations=1)
    assert without.silent is None
    assert {row["silent clock"] for row in without.rows()} == {None}
    assert not [column for column in without.columns if column.startswith("clock")]


def test_a_neuron_that_hears_one_sine_prefers_its_peak(tmp_path):
    """A wire from the sine of period 2 pi to one inter neuron, and nothing else: its curve is known."""
    layer, (x, time) = layer_of(clock=1, near=8, time_scale=2.0), slow()
    weights, wiring, sine = layer.backbone.weights, layer.backbone.wiring, WIDTH + 1  # second clock neuron
    neuron = int(np.flatnonzero(wiring.input_adjacency[sine])[0])
    index = wiring.group("inter").index(neuron)
    table = weights.input_weight.dense()[0].detach().clone()
    table[:, neuron] = 0
    table[sine, neuron] = 1
    weights.input_weight.fill(table)
    found = time_tuning(record(layer, x, time, out=tmp_path / "look", detail="means"), permutations=19)
    column = found.columns.index(f"inter {index}")
    np.testing.assert_allclose(found.means[0, column], np.tanh(np.sin(found.elapsed / 2)), atol=0.05)
    assert found.strength[0, column] > 0.97
    (row,) = (r for r in found.rows() if (r["head"], r["group"], r["index"]) == (0, "inter", index))
    reach = found.elapsed.max()
    assert row["highest at"] == pytest.approx(min(np.pi, reach), abs=0.6)
    assert row["lowest at"] == pytest.approx(max(-np.pi, found.elapsed.min()), abs=0.6)


@pytest.mark.slow
def test_a_slow_neuron_that_knows_no_time_is_not_tuned(tmp_path):
    """Of key and query alone, and among nearest keys: chance, but for about one recording in twenty."""
    count, most = (60, 9) if DEEP else (8, 3)
    wrong, low = 0, []
    for seed in range(count):
        layer = layer_of(seed, near=8)
        table = layer.backbone.weights.input_weight
        with torch.no_grad():
            table.weight[:, table.index // table.shape[1] < WIDTH // 2] = 0  # only keys are heard
        recording = record(layer, *slow(seed=seed), out=tmp_path / "look", detail="means")
        found = time_tuning(recording, permutations=39, seed=seed)
        kept = [i for i, column in enumerate(found.columns) if column != "logits"]  # which know t
        wrong += found.above[:, kept].any()
        low.append((found.p[:, kept] <= 0.05).mean())
    assert wrong <= most
    assert np.mean(low) < 0.09


def test_steps_that_flip_alone_would_call_drift_tuned():
    """Why runs flip as a whole: drift counts as evidence in each step again."""
    random, runs, steps, keys = np.random.default_rng(0), 16, 30, 8
    elapsed, lengths = np.tile(np.arange(8.0), runs * steps), np.full(runs * steps, keys)
    together, alone = np.repeat(np.arange(runs), steps), np.arange(runs * steps)
    wrong = {"together": 0, "alone": 0}
    for _ in range(100):
        slope = np.repeat(random.normal(size=runs), steps)  # of what keys hold, over the keys of a step
        states = (slope[:, None] * (np.arange(keys) - 3.5) + random.normal(size=(runs * steps, keys))).reshape(
            -1, 1
        )
        for name, sample in (("together", together), ("alone", alone)):
            sums = BinSums.of(Pairs(elapsed, states, lengths, sample), edges_of(elapsed, keys))
            chance = sums.strengths(random.choice([-1.0, 1.0], (99, sample.max() + 1)))
            wrong[name] += (1 + (chance[:, 0] >= sums.strength()[0]).sum()) / 100 <= 0.05
    assert wrong["together"] <= 12  # of a binomial of 100 times 5 %, more have a chance of 0.1 %
    assert wrong["alone"] > 40


def test_rows_begin_with_the_strongest_and_hold_the_curves(seen):
    *_, found = seen
    rows = found.rows()
    assert len(rows) == found.strength.size
    assert [row["strength"] for row in rows] == sorted(found.strength.flat, reverse=True)
    assert {row["index"] for row in rows if row["group"] in GATES} == {-1}
    names = [name for name in rows[0] if name.startswith("mean at ")]
    times = [float(name.removeprefix("mean at ")) for name in names]
    np.testing.assert_allclose(times, found.elapsed, rtol=1e-3, atol=1e-9)
    for row in rows[::7]:
        name = row["group"] if row["index"] < 0 else f"{row['group']} {row['index']}"
        at = (row["head"], found.columns.index(name))
        assert [row[n] for n in names] == found.means[at].tolist()
        assert (row["z"], row["p"], row["null"]) == (found.z[at], found.p[at], found.null[at])
        assert row["above"] == (found.z[at] > found.threshold)
        assert row["highest at"] == found.elapsed[found.means[at].argmax()]


def test_what_never_changes_is_not_tuned(tmp_path):
    layer = layer_of(**PLUS)
    with torch.no_grad():
        layer.backbone.weights.output_scale[1, 0] = 0
    found = time_tuning(record(layer, *slow(), out=tmp_path / "look", detail="means"), permutations=19)
    at = (1, found.columns.index("phi"))
    assert (found.strength[at], found.z[at], found.p[at], found.above[at]) == (0, 0, 1, False)
    (row,) = (r for r in found.rows() if (r["head"], r["group"]) == (1, "phi"))
    assert (row["highest at"], row["lowest at"]) == (None, None)


def test_without_stamps_time_is_counted_in_steps(tmp_path):
    layer, (x, _) = layer_of(**PLUS), slow()
    found = time_tuning(record(layer, x, out=tmp_path / "look", detail="means"), permutations=1, bins=200)
    assert found.unit == "steps"
    np.testing.assert_allclose(found.elapsed, found.elapsed.round(), atol=1e-9)
    assert 0.0 in found.elapsed
    curve = found.means[0, found.columns.index("clock 6")]  # sine at a scale of one step
    there = found.counts[0] > 0
    assert not there.all()
    np.testing.assert_allclose(curve[there], np.sin(found.elapsed[there]), atol=1e-5)
    assert np.isnan(curve[~there]).all()
    cosines = [row["mean at 0"] for row in found.rows() if row["group"] == "clock" and row["index"] < 4]
    assert cosines == pytest.approx([1.0] * 8)
    assert found.threshold == np.inf
    assert not found.above.any()


def test_the_seed_and_the_blocks_of_permutations(seen, monkeypatch):
    *_, recording, found = seen
    again = time_tuning(recording)
    np.testing.assert_array_equal(again.z, found.z)
    monkeypatch.setattr("nacre.inspect.analysis.association._NUMBERS", 10_000)
    monkeypatch.setattr("nacre.inspect.analysis.association._ELEMENTS", 10_000)
    small = time_tuning(recording)
    np.testing.assert_allclose(small.z, found.z, rtol=1e-6)
    assert small.threshold == pytest.approx(found.threshold)
    assert time_tuning(recording, seed=1).threshold != found.threshold


def test_what_cannot_be_asked(seen, tmp_path):
    *_, recording, _ = seen
    for name, value in (("permutations", 0), ("bins", 1), ("most", 0)):
        with pytest.raises(ValueError, match=f"{name} must be at least"):
            time_tuning(recording, **{name: value})
    one = record(layer_of(**PLUS), torch.randn(2, 1, WIDTH), out=tmp_path / "one")
    with pytest.raises(TooFewLabels, match="all 4 pairs have the same elapsed time; record longer samples"):
        time_tuning(one)
    broken = copy.deepcopy(layer_of(**PLUS))
    nn.init.constant_(broken.backbone.weights.output_shift, float("nan"))
    lost = record(broken, *slow(1), out=tmp_path / "lost")
    with pytest.raises(ValueError, match="states must be finite, got NaN or infinity in 'phi'"):
        time_tuning(lost)
