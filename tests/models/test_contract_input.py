"""What every model of the zoo says to bad input and bad options."""

import pytest
import torch

import nacre
from reference.zoo import BASELINES, NAMES, batch, make


@pytest.mark.parametrize("name", BASELINES)
def test_bad_input_is_explained(name):
    model = make(name)
    x, time = batch()
    with pytest.raises(ValueError, match=r"x must have 5 numbers in its last dimension, got shape \(3, 9, 4\)"):
        model(x[..., :4])
    with pytest.raises(ValueError, match=r"x.unsqueeze\(0\) for a single sequence"):
        model(x[0])
    with pytest.raises(ValueError, match="at least one row and one step"):
        model(x[:, :0])
    with pytest.raises(TypeError, match="x has dtype torch.float64 but the layer's weights are torch.float32"):
        model(x.double())
    with pytest.raises(ValueError, match=r"time must have shape \(3, 9\)"):
        model(x, time=time[0])
    with pytest.raises(TypeError, match="key_padding_mask must be a bool tensor with True at padding"):
        model(x, key_padding_mask=torch.zeros(3, 9))
    time[1, 7] = time[1, 6] - 0.01
    with pytest.raises(ValueError, match="time must not go back within a row, got .* at row 1, step 7; sort"):
        model(x, time=time)
    padding = torch.zeros(3, 9, dtype=torch.bool)
    padding[1, 7] = True
    time[1, 6] = time[1, 5]  # equal stamps are allowed
    model(x, time=time, key_padding_mask=padding)
    time[2, 3] = float("nan")
    with pytest.raises(ValueError, match="time must be finite, got nan at row 2, step 3"):
        model(x, time=time, key_padding_mask=padding)


@pytest.mark.parametrize("name", NAMES)
def test_bad_options_are_explained(name):
    layer = name if name in BASELINES else "NAC"
    with pytest.raises(
        TypeError, match=f"{layer} has no option 'nonsense'; (did you mean|it takes|further options)"
    ):
        make(name, nonsense=1)
    with pytest.raises(ValueError, match="d_model must be at least 2, got 1"):
        nacre.create(name, d_input=5, d_model=1, num_heads=1)
    with pytest.raises(ValueError, match="num_heads must be at least 1, got 0"):
        nacre.create(name, d_input=5, d_model=8, num_heads=0)


@pytest.mark.parametrize("name", [n for n in NAMES if nacre.model_info(n).uses_time])
@pytest.mark.parametrize("value", [0.0, float("inf"), float("nan")])
def test_a_unit_of_time_is_a_positive_number(name, value):
    with pytest.raises(ValueError, match=r"time_scale must lie in \(0.0, inf\), got"):
        make(name, time_scale=value)
