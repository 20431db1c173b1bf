"""Steps that only ask (`query_only`): answered like a last step, and otherwise as if they were not there."""

import pytest
import torch

from support.models import case, each, info, irregular, make, names, padding_of

ASKS = torch.tensor([[0, 0, 1, 0, 1, 1, 0], [1, 0, 1, 0, 0, 0, 1], [0, 0, 0, 0, 0, 0, 0]]).bool()


def given():
    x, time = irregular()
    return x.detach(), time


def same(got, want):
    torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-9)


@each(names("nac-pw", "nac-steady"))
def test_the_other_steps_do_not_notice_questions(name):
    x, time = given()
    model = make(name).double().eval()
    y = model(x, time=time, query_only=ASKS)
    for row, asks in enumerate(ASKS):
        with case(name, row):
            same(y[row, ~asks], model(x[row : row + 1, ~asks], time=time[row : row + 1, ~asks])[0])
    poisoned = model(torch.where(ASKS.unsqueeze(-1), 1e3, x), time=time, query_only=ASKS)
    assert torch.equal(poisoned[~ASKS], y[~ASKS])
    if name != "mtan":  # of a question, it knows nothing but its moment
        assert not torch.allclose(poisoned[ASKS], y[ASKS])


@each(names("nac-pw"))
def test_questions_do_not_notice_each_other(name):
    x, time = given()
    model = make(name).double().eval()
    y = model(x, time=time, query_only=ASKS)
    for row, step in ASKS.nonzero().tolist():
        kept = ~ASKS[row]
        kept[step] = True
        alone = model(x[row : row + 1, kept], time=time[row : row + 1, kept], query_only=ASKS[row : row + 1, kept])
        with case(name, row, step):
            same(y[row, step], alone[0, int(kept[:step].sum())])


@each([name for name in names() if info(name).causal])
def test_a_recurrent_model_answers_as_if_the_question_were_its_last_step(name):
    x, time = given()
    model = make(name).double().eval()
    y = model(x, time=time, query_only=ASKS)
    for row, step in ASKS.nonzero().tolist():
        kept = ~ASKS[row] & (torch.arange(x.shape[1]) < step)
        kept[step] = True
        with case(name, row, step):
            same(y[row, step], model(x[row : row + 1, kept], time=time[row : row + 1, kept])[0, -1])


@each(names())
def test_questions_beside_padding(name):
    x, time = given()
    model = make(name).double().eval()
    for where in ("left", "right", "inside"):
        padding = padding_of(*ASKS.shape, where)
        y = model(x, time=time, key_padding_mask=padding, query_only=ASKS)
        assert not y[padding].any()
        for row in range(3):
            kept = ~padding[row]
            alone = model(
                x[row : row + 1, kept], time=time[row : row + 1, kept], query_only=ASKS[row : row + 1, kept]
            )
            with case(name, where, row):
                same(y[row, kept], alone[0])


@each(names())
def test_questions_learn(name):
    x, time = given()
    x.requires_grad_()
    model = make(name).double()
    model(x, time=time, query_only=ASKS)[ASKS].square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    assert x.grad is not None
    assert x.grad.isfinite().all()
    assert x.grad[:2].any()
    assert not x.grad[2].any()  # a row without questions


@each(names())
def test_a_row_of_questions_alone_is_finite(name):
    x, time = given()
    y = make(name).double()(x, time=time, query_only=torch.ones_like(ASKS))
    assert y.isfinite().all()


@each(["sdpa", "nac", "cfc-fc"])
def test_bad_questions(name):
    x, time = given()
    model = make(name).double()
    with pytest.raises(ValueError, match="query_only needs time"):
        model(x, query_only=ASKS)
    with pytest.raises(ValueError, match="query_only must have shape"):
        model(x, time=time, query_only=ASKS[:, :3])
    with pytest.raises(TypeError, match="query_only must be a bool tensor"):
        model(x, time=time, query_only=ASKS.float())
    with pytest.raises(TypeError, match="torch.as_tensor"):
        model(x, time=time, query_only=ASKS.tolist())
