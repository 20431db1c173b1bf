"""Steps that only ask, in the causal forms of attention models, and what they leave out of a loss."""

import torch

from support.models import case, each, irregular, make

ASKS = torch.tensor([[0, 0, 1, 0, 1, 1, 0], [1, 0, 1, 0, 0, 0, 1], [0, 0, 0, 0, 0, 0, 0]]).bool()
CAUSAL = ["contiformer", "cta", "linear-attention", "odeformer", "ot-transformer", "sdpa"]


def given():
    x, time = irregular()
    return x.detach(), time


@each(CAUSAL)
def test_causal_steps_do_not_notice_questions(name):
    x, time = given()
    model = make(name, causal=True).double().eval()
    y = model(x, time=time, query_only=ASKS)
    for row, asks in enumerate(ASKS):
        with case(name, row):
            alone = model(x[row : row + 1, ~asks], time=time[row : row + 1, ~asks])[0]
            torch.testing.assert_close(y[row, ~asks], alone, rtol=1e-9, atol=1e-9)


@each(CAUSAL)
def test_causal_answers_know_only_their_past(name):
    """Each is that of the model which is not causal, to the past alone; zeros where there is none."""
    x, time = given()
    causal, other = (make(name, causal=causal).double().eval() for causal in (True, False))
    y = causal(x, time=time, query_only=ASKS)
    for row, step in ASKS.nonzero().tolist():
        past = (slice(row, row + 1), slice(step + 1))
        want = other(x[past], time=time[past], query_only=ASKS[past])[0, -1]
        with case(name, row, step):
            if name not in ("odeformer", "ot-transformer"):  # where earlier steps would see later ones
                torch.testing.assert_close(y[row, step], want, rtol=1e-9, atol=1e-9)
            past_alone = causal(x[past], time=time[past], query_only=ASKS[past])[0, -1]
            torch.testing.assert_close(y[row, step], past_alone, rtol=1e-9, atol=1e-9)
    assert not y[1, 0].any()


def test_questions_cost_no_transport():
    x, time = given()
    model = make("ot-transformer").double().train()
    model(x[:1], time=time[:1], query_only=ASKS[:1])
    cost = model.aux_loss
    model(x[:1, ~ASKS[0]], time=time[:1, ~ASKS[0]])
    torch.testing.assert_close(cost, model.aux_loss, rtol=1e-12, atol=1e-12)
    model(x, time=time, query_only=torch.ones_like(ASKS))
    assert model.aux_loss == 0
