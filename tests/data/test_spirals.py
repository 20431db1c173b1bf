"""Generated spirals follow the protocol and leak nothing."""

import pytest
import torch

from nacre.data.sets.spirals import END, HALF, make_spirals


@pytest.fixture(scope="module")
def splits():
    return make_spirals()


def test_sizes(splits):
    train, test = splits
    assert (len(train), len(test)) == (200, 100)
    for part in splits:
        n = len(part)
        assert part.x.shape == (n, 50, 2)
        assert part.time.shape == (n, 50)
        assert part.target.shape == (n, 150, 2)
        assert part.target_time.shape == (n, 150)
        assert part.clockwise.float().mean() == pytest.approx(0.5)


def test_only_the_first_half_is_seen_at_irregular_times_of_its_own(splits):
    for part in splits:
        assert (part.time.diff(dim=1) > 0).all()
        assert (part.time <= part.target_time[:, HALF - 1 : HALF]).all()
        assert part.time.diff(dim=1).std() > 0.01
        assert not torch.equal(part.time[0], part.time[1])
        assert part.target_time[0, -1].item() == pytest.approx(END)


def test_observations_are_the_target_plus_noise(splits):
    for part in splits:
        where = torch.searchsorted(part.target_time, part.time - 1e-3)
        clean = part.target.take_along_dim(where.unsqueeze(-1), 1)
        noise = (part.x - clean).std((0, 1))
        assert ((noise > 0.001) & (noise < 0.01)).all()  # 0.05 before scaling


def test_leak_the_scale_comes_from_training_spirals_only(splits):
    train, _ = splits
    torch.testing.assert_close(train.target.amin((0, 1)), torch.zeros(2))
    torch.testing.assert_close(train.target.amax((0, 1)), torch.ones(2))
    # more test spirals at the end change no training spiral's scale: both bounds are reached in training
    assert (train.target >= 0).all()
    assert (train.target <= 1).all()


def test_seeded_without_touching_the_global_generator(splits):
    before = torch.get_rng_state()
    again = make_spirals()
    assert torch.equal(before, torch.get_rng_state())
    assert all(torch.equal(a.x, b.x) for a, b in zip(splits, again, strict=True))
    assert not torch.equal(make_spirals(seed=1)[0].x, splits[0].x)


def test_spirals_differ_from_one_another(splits):
    train, _ = splits
    assert train.target[train.clockwise].std(0).mean() > 1e-3
    # the clockwise ones wind inwards, the others outwards
    step = train.target.diff(dim=1).norm(dim=-1)
    inwards = step[:, :HALF].sum(1) > step[:, HALF:].sum(1)
    assert torch.equal(inwards, train.clockwise)


def test_spread_makes_spirals_differ_more():
    narrow, wide = (make_spirals(spread=s)[0] for s in (0.02, 0.08))
    ratio = wide.target[wide.clockwise].std(0).mean() / narrow.target[narrow.clockwise].std(0).mean()
    assert ratio > 2.5


def test_bad_input():
    with pytest.raises(ValueError, match="spread must lie in"):
        make_spirals(spread=0.5)
    with pytest.raises(ValueError, match="n must be at least 6, got 2"):
        make_spirals(n=2)
