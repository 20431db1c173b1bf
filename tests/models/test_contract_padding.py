"""What every model of the zoo promises about padding."""

import pytest
import torch

from support.models import CLASSES, batch, case, each, make, names, padding_of

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


@pytest.mark.parametrize("with_time", [True, False])
@pytest.mark.parametrize("where", PLACES)
def test_padding_is_as_if_it_were_not_there(where, with_time):
    x, time = batch(dtype=torch.float64)
    padding = padding_of(3, 9, where)
    for name in CLASSES:
        model = make(name).double()
        y = model(x, time=time if with_time else None, key_padding_mask=padding)
        for row in range(3):
            keep = ~padding[row]
            alone = model(x[row : row + 1, keep], time=time[row : row + 1, keep] if with_time else None)
            with case(name, "row", row):
                torch.testing.assert_close(y[row, keep], alone[0], rtol=1e-9, atol=1e-9)


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
