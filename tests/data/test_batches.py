"""Batches for training and scoring: everyone once an epoch, the same order whenever it is asked for."""

from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from nacre.data import batches
from nacre.data.batches import Indexed, Rounds, by_length, steps_of_epoch
from nacre.data.dataset import Kind
from support.controls import ragged
from support.hypothesis import examples
from support.refused import refused


def lengths(count, seed=0):
    """Lengths as skewed as those of real sequences, and indices that are not their places."""
    random = torch.Generator().manual_seed(seed)
    return (torch.rand(count, generator=random) * 5).exp().long() + 1, torch.arange(count) * 3 + 7


def stream(count, batch_size, steps, seed=0, rounds=1):
    """The batches of the first rounds, as lists."""
    sampler = Rounds(*lengths(count), batch_size, steps, seed)
    found = []
    for number in range(rounds):
        sampler.set_epoch(number)
        found += [batch.tolist() for batch in sampler]
    return found


def epoch(count, batch_size, number, seed=0):
    sampler = Rounds(*lengths(count), batch_size, steps_of_epoch(count, batch_size), seed)
    sampler.set_epoch(number)
    return [batch.tolist() for batch in sampler]


def padding(chosen, length_of):
    """Padded steps of batches for each valid one."""
    valid = sum(length_of[i] for batch in chosen for i in batch)
    whole = sum(len(batch) * max(length_of[i] for i in batch) for batch in chosen)
    return (whole - valid) / valid


@given(
    count=st.integers(1, 60), batch_size=st.integers(1, 9), pool=st.integers(1, 3), seed=st.integers(0, 2**31 - 1)
)
@examples(60)
def test_every_epoch_holds_each_sequence_once(count, batch_size, pool, seed):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "POOL", pool)  # several pools, the last one smaller
        for number in range(3):
            chosen = epoch(count, batch_size, number, seed)
            assert sorted(i for batch in chosen for i in batch) == lengths(count)[1].tolist()
            sizes = sorted(len(batch) for batch in chosen)
            assert sizes[1:] == [batch_size] * (len(chosen) - 1)  # at most one is smaller
            assert 0 < sizes[0] <= batch_size


@given(count=st.integers(1, 40), batch_size=st.integers(1, 6), seed=st.integers(0, 9))
@examples(40)
def test_rounds_cut_one_stream_wherever_they_end(count, batch_size, seed):
    by_three = stream(count, batch_size, 3, seed, rounds=7)
    by_seven = stream(count, batch_size, 7, seed, rounds=3)
    assert by_three == by_seven == stream(count, batch_size, 21, seed)


@given(steps=st.lists(st.integers(0, 40), min_size=1, max_size=10))
@examples(40)
def test_a_step_is_the_same_whenever_it_is_asked_for(steps):
    expected = stream(23, 4, 41)
    sampler = Rounds(*lengths(23), 4, 5, 0)
    assert [sampler.batch_of(step).tolist() for step in steps] == [expected[step] for step in steps]


def test_a_round_can_be_run_through_again():
    sampler = Rounds(*lengths(23), 4, 9, 0)  # more steps than an epoch has
    assert [b.tolist() for b in sampler] == [b.tolist() for b in sampler]
    assert len(sampler) == len(list(sampler)) == 9


def test_other_seeds_and_other_epochs_have_other_batches():
    chosen = [epoch(200, 8, number, seed) for seed in range(3) for number in range(3)]
    who_meets_whom = {frozenset(frozenset(batch) for batch in batches) for batches in chosen}
    assert len(who_meets_whom) == 9


def test_the_order_of_batches_is_not_that_of_their_lengths():
    length, index = lengths(400)
    length_of = dict(zip(index.tolist(), length.tolist(), strict=True))
    longest = [max(length_of[i] for i in batch) for batch in epoch(400, 8, 0)]  # one pool of 50 batches
    assert longest != sorted(longest)
    rises = sum(a < b for a, b in pairwise(longest))
    assert 15 < rises < 35  # of 49; 49 if sorted


def test_torchs_generator_is_left_alone():
    before = torch.get_rng_state()
    epoch(50, 8, 0)
    assert torch.equal(torch.get_rng_state(), before)


def test_little_is_padded():
    length, index = lengths(2000)
    length_of = dict(zip(index.tolist(), length.tolist(), strict=True))
    at_random = [batch.tolist() for batch in index[torch.randperm(2000)].split(16)]
    assert padding(at_random, length_of) > 1.0
    assert padding(epoch(2000, 16, 0), length_of) < 0.1 * padding(at_random, length_of)
    scored = [batch.tolist() for batch in by_length(length, index, 16)]
    assert padding(scored, length_of) < 0.1 * padding(at_random, length_of)


@given(count=st.integers(1, 60), batch_size=st.integers(1, 9), seed=st.integers(0, 9))
@examples(40)
def test_by_length_covers_everyone_once_from_short_to_long(count, batch_size, seed):
    length, index = lengths(count, seed)
    chosen = by_length(length, index, batch_size)
    assert sorted(i for batch in chosen for i in batch.tolist()) == index.tolist()
    assert [len(batch) for batch in chosen[:-1]] == [batch_size] * (len(chosen) - 1)
    length_of = dict(zip(index.tolist(), length.tolist(), strict=True))
    in_order = [length_of[i] for batch in chosen for i in batch.tolist()]
    assert in_order == sorted(in_order)


def test_steps_of_an_epoch():
    for count, batch_size, steps in ((1, 4, 1), (4, 4, 1), (5, 4, 2), (8, 4, 2), (9, 1, 9)):
        assert steps_of_epoch(count, batch_size) == steps == len(epoch(count, batch_size, 0)), (count, batch_size)


def test_a_loader_gives_the_batches_of_a_round():
    data = ragged(Kind.STEP_CLASSIFICATION, n=20)
    data = replace(data, query_only=torch.rand(len(data.values)) < 0.5)
    sampler = Rounds(data.length, torch.arange(20), 6, 4, 0)
    loaded = list(DataLoader(Indexed(data), sampler=sampler, batch_size=None))
    assert len(loaded) == 4
    for index, got in zip(sampler, loaded, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(got, data.batch(index), strict=True))


def test_empty_batches_and_rounds_are_refused():
    for name in ("batch_size", "steps"):
        with refused(f"{name} must be at least 1, got 0"):
            Rounds(*lengths(5), seed=0, **{"batch_size": 4, "steps": 4, name: 0})
