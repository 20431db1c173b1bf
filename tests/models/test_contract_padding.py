"""What every model of the zoo promises about padding."""

import torch
from hypothesis import example, given
from hypothesis import strategies as st

from support.hypothesis import examples
from support.models import batch, case, each, info, make, names, padding_of

WITH_LOSS = {"deepstate", "ot-transformer"}
POISONS = [float("nan"), float("inf"), -1e30]
PLACES = ["right", "left", "inside"]


@each(names("nac-pw"))
def test_what_is_in_padding_changes_no_bit(name):
    model = make(name)
    x, time = batch()
    weight = torch.randn(3, 9, 8)

    def run(padding, poison):
        model.zero_grad()
        dirty = x.masked_fill(padding[..., None], poison).requires_grad_()
        y = model(dirty, time=time.masked_fill(padding, poison), key_padding_mask=padding)
        (y * weight).sum().backward()
        return y.detach(), dirty.grad, *(p.grad.clone() for p in model.parameters())

    for where in PLACES:
        padding = padding_of(3, 9, where)
        clean = run(padding, 0.0)
        y, x_grad, *_ = clean
        assert (y[padding] == 0).all(), where
        assert (x_grad[padding] == 0).all(), where
        for poison in POISONS:
            with case(where, poison):
                assert all(torch.equal(a, b) for a, b in zip(run(padding, poison), clean, strict=True))


def stamps(kind, length):
    """Stamps [1, length] of one row; None for a row without."""
    if kind == "none":
        return None
    steps = torch.arange(length, dtype=torch.float64) * 0.5
    jitter = torch.rand(length, dtype=torch.float64) * {"regular": 0, "nearly regular": 4e-7, "irregular": 5}[kind]
    return (steps + jitter).sort().values[None]


@each(names("nac-pw", "nac-euler"))
@examples(40)
@given(
    st.integers(1, 30),
    st.integers(0, 60),
    st.sampled_from(["right", "left", "anywhere"]),
    st.sampled_from(["none", "regular", "nearly regular", "irregular"]),
    st.integers(0, 2**32 - 1),
)
@example(30, 20, "anywhere", "nearly regular", 0)
def test_padding_is_as_if_it_were_not_there(name, steps, padded, where, kind, seed):
    """A row alone, and between two others, stretched by padding."""
    model = make(name).eval()
    torch.manual_seed(seed)
    length = steps + padded
    keep = {"right": torch.arange(steps), "left": torch.arange(padded, length)}.get(where, torch.randperm(length))
    keep = keep[:steps].sort().values
    padding = torch.zeros(3, length, dtype=torch.bool)
    padding[1] = torch.ones(length).index_fill(0, keep, 0)
    alone, time = torch.randn(1, steps, 5, dtype=torch.float64), stamps(kind, steps)
    x, all_time = torch.randn(3, length, 5, dtype=torch.float64), stamps("irregular", length).repeat(3, 1)
    x[1], all_time[1] = torch.nan, torch.nan
    x[1, keep] = alone[0]
    if time is not None:
        all_time[1, keep] = time[0]
    # Keys are chosen by comparison: in single precision, rounding may decide between two of them.
    dtypes = {torch.float64: 1e-9} | ({} if info(name).kind == "NAC" else {torch.float32: 1e-5})
    with torch.no_grad():
        for dtype, tolerance in dtypes.items():
            model.to(dtype)
            want = model(alone.to(dtype), time=time)[0]
            got = model(x.to(dtype), time=None if time is None else all_time, key_padding_mask=padding)[1, keep]
            size = want.abs().max()
            if name == "phased-lstm" and dtype == torch.float32:
                size = size + 1e-3  # where its gate is nearly closed, answers are far smaller than what is rounded
            assert (got - want).abs().max() <= tolerance * size, dtype


def test_rows_of_nothing_but_padding_are_zero():
    for name in names("nac-pw", "nac-steady"):
        with case(name):
            model = make(name)
            x, time = batch()
            padding = padding_of(3, 9, "right")
            padding[2] = True
            x[2], time[2] = float("nan"), float("nan")
            y = model(x, time=time, key_padding_mask=padding)
            assert (y[2] == 0).all()
            y.square().sum().backward()
            assert all(p.grad.isfinite().all() for p in model.parameters())


def test_auxiliary_losses_belong_to_training():
    for name in names():
        with case(name):
            model = make(name)
            x, time = batch()
            padding = padding_of(3, 9, "inside")
            model(x, time=time, key_padding_mask=padding)
            if name in WITH_LOSS:
                assert model.aux_loss.shape == ()
                loss = model.aux_loss.item()
                model(x.masked_fill(padding[..., None], 7.0), time=time, key_padding_mask=padding)
                assert model.aux_loss.item() == loss
                model.aux_loss.backward()
                assert any((p.grad != 0).any() for p in model.parameters() if p.grad is not None)
            else:
                assert model.aux_loss is None
            model.eval()(x, time=time)
            assert model.aux_loss is None
