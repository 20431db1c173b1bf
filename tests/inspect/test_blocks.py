"""Arrays that are written piece by piece, and their summaries: nothing is lost, and nothing is made up."""

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

from nacre.inspect.recording import arrays as levels
from nacre.inspect.recording.arrays import (
    FACTOR,
    Arrays,
    BlockWriter,
    array_of,
    level_name,
    new_array,
    read_curve,
    summary,
    write_levels,
)
from nacre.inspect.recording.recording import LayerRecording
from support.hypothesis import examples


def group_in_memory() -> zarr.Group:
    return zarr.create_group(zarr.storage.MemoryStore())


def values(shape, seed=0, dtype="float32"):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def plain(rows, size):
    """Smallest, largest and mean of each so many rows, one at a time."""
    pieces = [np.asarray(rows[i : i + size], np.float64) for i in range(0, len(rows), size)]
    return np.stack([np.stack([p.min(0), p.max(0), p.mean(0)]) for p in pieces])


def stored(lengths, width=2, seed=0, heads=None, dtype="float32", padding=1e6):
    """A group with the array `states` and its summaries; what lies behind a sample is huge."""
    group = group_in_memory()
    inner = (width,) if heads is None else (heads, width)
    data = values((len(lengths), max(lengths), *inner), seed, dtype)
    for sample, length in enumerate(lengths):
        data[sample, length:] = padding
    new_array(group, "states", data.shape, dtype, None if heads is None else 2)[...] = data
    write_levels(group, "states", list(lengths), None if heads is None else 2)
    return group, data


# How arrays are laid out


def test_chunks_hold_one_sample_and_a_megabyte_at_most():
    group = group_in_memory()
    for width in (1, 3, 1000, 2**19):
        array = new_array(group, f"w{width}", (2, 10**5, width), "float32")
        sample, steps, inner = array.chunks
        assert (sample, inner) == (1, width)
        assert steps == 1 or steps * width * 4 <= 2**20
        assert steps * 2 * width * 4 > 2**20 or steps == 10**5
    assert new_array(group, "short", (2, 7, 3), "float32").chunks == (1, 7, 3)
    assert new_array(group, "empty", (2, 0, 3), "float32").shape == (2, 0, 3)


def test_a_dimension_kept_apart_has_one_place_in_each_chunk():
    array = new_array(group_in_memory(), "states", (2, 10**5, 4, 5), "float32", apart=2)
    assert array.chunks[2:] == (1, 5)
    assert array.chunks[1] * 5 * 4 <= 2**20 < 2 * array.chunks[1] * 5 * 4


def test_an_unknown_array_is_refused_with_the_names_of_those_there():
    group = group_in_memory()
    new_array(group, "phi", (1, 1), "float32")
    new_array(group, "omega", (1, 1), "float32")
    with pytest.raises(ValueError, match="'psi'; there are omega, phi"):
        array_of(group, "psi")


# Writing piece by piece


@st.composite
def forward_pieces(draw):
    """Lengths of samples, and pieces (sample, start, stop) in an order that goes forward within each sample."""
    lengths = draw(st.lists(st.integers(0, 23), min_size=1, max_size=3).filter(any))
    order = draw(st.permutations(range(len(lengths))))
    pieces = []
    for sample in order:
        cuts = draw(st.lists(st.integers(0, lengths[sample]), max_size=6))
        edges = sorted({0, *cuts, lengths[sample]})
        kept = [draw(st.booleans()) or draw(st.booleans()) for _ in edges[1:]]
        pieces += [(sample, a, b) for a, b, k in zip(edges, edges[1:], kept, strict=False) if k]
    return lengths, pieces


@examples(60)
@given(forward_pieces(), st.integers(1, 9), st.sampled_from(["float32", "float16", "int32", "bool"]))
def test_pieces_in_any_forward_order_give_what_writing_at_once_gives(drawn, chunk, dtype):
    lengths, pieces = drawn
    data = (10 * values((len(lengths), max(lengths), 2))).astype(dtype)
    array = group_in_memory().create_array("x", shape=data.shape, chunks=(1, chunk, 2), dtype=dtype, fill_value=0)
    writer, want = BlockWriter(array), np.zeros_like(data)
    for sample, start, stop in pieces:
        writer.put(sample, start, data[sample, start:stop])
        want[sample, start:stop] = data[sample, start:stop]
    writer.flush()
    assert np.array_equal(np.asarray(array[...]), want)


@pytest.mark.parametrize("piece", [1, 3, 4, 5, 8, 13])
def test_borders_of_chunks_are_where_they_should_be(piece):
    data = values((2, 13, 3))
    array = group_in_memory().create_array("x", shape=data.shape, chunks=(1, 4, 3), dtype="float32", fill_value=0)
    writer = BlockWriter(array)
    for sample in (1, 0):
        for start in range(0, 13, piece):
            writer.put(sample, start, data[sample, start : start + piece])
    writer.flush()
    assert np.array_equal(np.asarray(array[...]), data)


def test_rows_that_never_come_stay_zero_and_leave_no_trace_of_the_block_before():
    array = group_in_memory().create_array("x", shape=(2, 8), chunks=(1, 4), dtype="float32", fill_value=0)
    writer = BlockWriter(array)
    writer.put(0, 0, np.ones(4, np.float32))
    writer.put(0, 6, np.full(1, 2, np.float32))
    writer.put(1, 1, np.full(1, 3, np.float32))
    writer.flush()
    writer.flush()  # nothing at hand: nothing is written
    assert np.asarray(array[...]).tolist() == [[1, 1, 1, 1, 0, 0, 2, 0], [0, 3, 0, 0, 0, 0, 0, 0]]


def test_no_more_than_a_chunk_is_held():
    array = new_array(group_in_memory(), "x", (1, 10**6, 4), "float32")
    writer = BlockWriter(array)
    assert writer._block.nbytes <= 2**20


# Summaries


@given(st.integers(1, 60), st.integers(1, 20), st.integers(0, 5))
def test_a_summary_is_the_smallest_the_largest_and_the_mean(count, size, seed):
    rows = values((count, 2), seed)
    got = summary(np.stack([rows] * 3, 1), size, np.ones(count))
    want = plain(rows, size)
    assert got.dtype == np.float32
    assert np.array_equal(got[:, :2], want[:, :2].astype(np.float32))
    np.testing.assert_allclose(got[:, 2], want[:, 2], rtol=1e-5, atol=1e-6)


def test_names_of_levels():
    assert [level_name("gates", level) for level in range(3)] == ["gates", "gates.8", "gates.64"]


@examples(25)
@given(
    lengths=st.lists(st.integers(1, 400), min_size=1, max_size=3),
    fewest=st.sampled_from([1, 7, 40]),
    read=st.sampled_from([8, 24, 4096]),
    heads=st.sampled_from([None, 2]),
    dtype=st.sampled_from(["float32", "float16"]),
)
def test_levels_are_plain_summaries_of_each_sample_and_padding_never_enters(lengths, fewest, read, heads, dtype):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(levels, "FEWEST", fewest)
        patch.setattr(levels, "_READ", read)
        group, data = stored(lengths, heads=heads, dtype=dtype, padding=6e4)
    level, longest = 0, max(lengths)
    while longest > fewest:
        level, longest = level + 1, -(-longest // FACTOR)
        array = np.asarray(array_of(group, level_name("states", level))[...])
        assert array.shape == (len(lengths), longest, 3, *data.shape[2:])
        for sample, length in enumerate(lengths):
            want = plain(data[sample, :length], FACTOR**level)
            got = array[sample, : len(want)]
            assert np.array_equal(got[:, :2], want[:, :2].astype(np.float32))
            np.testing.assert_allclose(got[:, 2], want[:, 2], rtol=1e-4, atol=1e-5)
            assert (got[:, 0] <= got[:, 2] + 1e-4).all()
            assert (got[:, 2] <= got[:, 1] + 1e-4).all()
            assert not array[sample, len(want) :].any()
    assert level_name("states", level + 1) not in group
    assert (level > 0) == (max(lengths) > fewest)


def test_the_mean_of_the_last_summary_counts_every_step_once(monkeypatch):
    monkeypatch.setattr(levels, "FEWEST", 1)
    group, _ = stored([9], width=1)
    array = array_of(group, "states")
    rows = np.asarray(array[0])
    got = np.asarray(array_of(group, "states.64")[0])
    np.testing.assert_allclose(got[:, 2], rows.mean(0, keepdims=True), rtol=1e-5)


def test_short_arrays_have_no_levels():
    group, _ = stored([levels.FEWEST, 5])
    assert list(group.array_keys()) == ["states"]
    group, _ = stored([levels.FEWEST + 1, 5])
    assert sorted(group.array_keys()) == ["states", "states.8"]


def test_levels_of_heads_can_be_read_one_by_one():
    group, _ = stored([3000], heads=3)
    assert array_of(group, "states.8").chunks[2:] == (3, 1, 2)


# Curves


LONG = 5000


@pytest.fixture(scope="module")
def curve_group():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(levels, "FEWEST", 16)
        return stored([LONG, 777], heads=2)


@examples(150)
@given(
    sample=st.integers(0, 1),
    head=st.integers(0, 1),
    ends=st.tuples(st.integers(0, LONG), st.integers(0, LONG)).filter(lambda ends: ends[0] != ends[1]),
    points=st.integers(1, 6000),
)
def test_a_curve_covers_its_window_bounds_its_data_and_has_few_points(curve_group, sample, head, ends, points):
    group, data = curve_group
    start, stop = min(ends), min(max(ends), (LONG, 777)[sample])
    if start >= stop:
        return
    first, rows = read_curve(Arrays(group), "states", sample, start, stop, points, (LONG, 777)[sample], head)
    assert len(first) == len(rows)
    assert rows.shape[1:] == (3, 2)
    assert first[0] <= start
    assert (np.diff(first) > 0).all()
    assert first[-1] < stop
    each = int(np.diff(first).max(initial=1)) if len(first) > 1 else stop - start
    assert first[0] + each > start
    assert len(first) <= 3 * points + 2
    assert len(first) >= min(points, stop - start) or len(first) >= points // 2
    true = data[sample, :, head]
    length = (LONG, 777)[sample]
    for i, begin in enumerate(first):
        end = first[i + 1] if i + 1 < len(first) else stop
        piece = true[begin : min(end, length)]
        assert (rows[i, 0] <= piece.min(0)).all()
        assert (rows[i, 1] >= piece.max(0)).all()
        reach = true[begin : min(begin + 4 * each + 512, length)]
        assert (rows[i, 0] >= reach.min(0)).all()
        assert (rows[i, 1] <= reach.max(0)).all()
        assert (rows[i, 0] <= rows[i, 2] + 1e-5).all()
        assert (rows[i, 2] <= rows[i, 1] + 1e-5).all()


@given(st.integers(0, 776), st.integers(1, 300), st.integers(0, 200))
def test_few_steps_come_as_they_are(curve_group, start, count, more):
    group, data = curve_group
    stop = min(start + count, 777)
    first, rows = read_curve(Arrays(group), "states", 1, start, stop, stop - start + more, 777, 1)
    assert np.array_equal(first, np.arange(start, stop))
    for part in range(3):
        assert np.array_equal(rows[:, part], data[1, start:stop, 1])


@pytest.mark.parametrize("unit", [8, 64, 512])
def test_whole_summaries_of_a_level_are_exact(curve_group, unit):
    group, data = curve_group
    stop = LONG // unit * unit
    first, rows = read_curve(Arrays(group), "states", 0, unit, stop, (stop - unit) // unit, LONG, 0)
    assert np.array_equal(first, np.arange(unit, stop, unit))
    want = plain(data[0, unit:stop, 0], unit)
    assert np.array_equal(rows[:, :2], want[:, :2].astype(np.float32))
    np.testing.assert_allclose(rows[:, 2], want[:, 2], rtol=1e-4, atol=1e-5)


@given(sample=st.integers(0, 1), points=st.integers(1, 900), start=st.integers(0, 770))
def test_means_of_a_curve_count_every_step_once(curve_group, sample, points, start):
    group, data = curve_group
    length = (LONG, 777)[sample]
    first, rows = read_curve(Arrays(group), "states", sample, start, length, points, length, 0)
    ends = np.append(first[1:], length)
    want = [data[sample, a:b, 0].astype(np.float64).mean(0) for a, b in zip(first, ends, strict=True)]
    np.testing.assert_allclose(rows[:, 2], want, rtol=1e-4, atol=1e-5)


def test_a_picture_of_many_steps_reads_few_numbers(curve_group, monkeypatch):
    """The right level is taken: no more than eight times as many rows as points are read."""
    group, _ = curve_group
    read = []
    plain_get = zarr.Array.__getitem__

    def get(self, place):
        got = plain_get(self, place)
        read.append(len(got))
        return got

    monkeypatch.setattr(zarr.Array, "__getitem__", get)
    read_curve(Arrays(group), "states", 0, 0, LONG, 9, LONG, 0)
    assert sum(read) <= 9 * FACTOR + FACTOR
    for unit in (8, 64, 512):
        read.clear()
        read_curve(Arrays(group), "states", 0, 0, 9 * unit, 9, LONG, 0)
        assert read == [9]


def test_without_levels_a_curve_is_summed_up_from_its_steps():
    group, data = stored([1000], width=3)
    first, rows = read_curve(Arrays(group), "states", 0, 100, 900, 100, 1000)
    assert np.array_equal(first, np.arange(100, 900, 8))
    want = plain(data[0, 100:900], 8)
    assert np.array_equal(rows[:, :2], want[:, :2].astype(np.float32))
    np.testing.assert_allclose(rows[:, 2], want[:, 2], rtol=1e-5, atol=1e-6)


def test_the_last_point_of_a_window_knows_of_nothing_behind_the_sample():
    """Padding is huge, so that it would show."""
    group, _ = stored([3001, 2001])
    for sample, length in enumerate((3001, 2001)):
        for points in (1, 7, 100, 375, 10_000):
            _, rows = read_curve(Arrays(group), "states", sample, 0, length, points, length)
            assert np.abs(rows).max() < 100


def test_a_layers_curve_stops_where_the_sample_does(curve_group):
    group, data = curve_group
    group.attrs.update(
        {
            "heads": 2,
            "width": 1,
            "neurons": [1, 1, 1],
            "gates": ["phi"],
            "shared": False,
            "wiring": {},
            "length": [LONG, 777],
        }
    )
    layer = LayerRecording("nac", group)
    first, rows = layer.curve("states", 1, 0, 700, 10**9, 10**6)
    assert np.array_equal(first, np.arange(700, 777))
    assert np.array_equal(rows[:, 2], data[1, 700:777, 0])
    assert len(layer.curve("states", 1, 0, 777, 10**9, 100)[0]) == 0
    assert layer.column("command", 0) == layer.neurons.index(("command", 0)) == 4
    with pytest.raises(ValueError, match="'phi'; there are states"):
        layer.curve("phi", 0, 0, 0, 10, 10)
