"""Images in a network: what becomes a token, what padding cannot reach, and what is refused."""

import pytest
import torch

from nacre.data.dataset import Kind
from nacre.tasks.image_encoder import ImageEncoder
from nacre.tasks.network import TaskNetwork

CONV = [[4, 3, 2], [5, 3, 1]]


def network(tokens="frames", model="nac", **image):
    torch.manual_seed(0)
    made = TaskNetwork(
        model, Kind.CLASSIFICATION, 3, 5, d_model=8, num_heads=2, dense=[6], time_scale=0.5,
        image={"size": [20, 24], "conv": CONV, "tokens": tokens, **image},
    )  # fmt: skip
    made.shift, made.scale = torch.full((3,), 127.5), torch.full((3,), 127.5)
    return made.eval()


def images(batch, steps, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(0, 256, (batch, steps, 20, 24, 3), dtype=torch.uint8, generator=generator)
    return x, torch.arange(steps).double().expand(batch, -1) / 50, torch.zeros(batch, steps, dtype=torch.bool)


@pytest.mark.parametrize("model", ["nac", "sdpa", "cfc-ncp"])
def test_padded_frames_change_nothing_and_a_batch_equals_its_samples(model):
    net = network(model=model)
    x, time, padding = images(3, 5)
    padding[1, 3:] = True
    out = net(x, time, padding)
    other = x.clone()
    other[1, 3:] = 255 - other[1, 3:]
    assert torch.equal(net(other, time, padding), out)
    for row, steps in enumerate((5, 3, 5)):
        alone = net(x[row : row + 1, :steps], time[row : row + 1, :steps], padding[row : row + 1, :steps])
        torch.testing.assert_close(alone[0], out[row], rtol=1e-4, atol=1e-5)


def test_the_last_frame_is_answered_and_earlier_ones_matter():
    net = network()
    x, time, padding = images(1, 4)
    out = net(x, time, padding)
    for step in range(4):
        other = x.clone()
        other[0, step] = 255 - other[0, step]
        assert not torch.allclose(net(other, time, padding), out, atol=1e-5), step
    assert torch.equal(net(x, time + 7, padding), out)  # no clock


@pytest.mark.parametrize("tokens", ["frames", "columns"])
def test_every_parameter_gets_a_gradient(tokens):
    net = network(tokens, colours="yuv").train()
    x, time, padding = images(6, 4 if tokens == "frames" else 1)
    net.loss(net(x, time, padding), torch.arange(6) % 5).backward()
    assert [name for name, p in net.named_parameters() if p.grad is None or not p.grad.any()] == []


def test_columns_are_tokens_from_left_to_right():
    eye = ImageEncoder((20, 24), 3, CONV, tokens="columns")
    x, time, padding = images(2, 1)
    x = x / 127.5 - 1
    tokens, stamps, gone = eye(x, time, padding)
    features = eye.layers(x[:, 0].permute(0, 3, 1, 2))  # [B, filters, height, width]
    assert tokens.shape == (2, features.shape[3], eye.width)
    assert stamps.tolist() == [list(range(features.shape[3]))] * 2
    assert not gone.any()
    moved = x.clone()
    moved[:, :, :, 20:] *= -1  # the right edge
    changed = (eye(moved, time, padding)[0] != tokens).any(-1)[0]
    assert changed[-1]
    assert not changed[: features.shape[3] // 2].any()


def test_yuv_is_brightness_and_two_differences():
    eye = ImageEncoder((9, 9), 3, [[3, 1, 1]], colours="yuv", activation="elu")
    conv = eye.layers[0]
    with torch.no_grad():
        conv.weight.copy_(torch.eye(3)[:, :, None, None])
    seen = []
    conv.register_forward_hook(lambda module, inputs, output: seen.append(output[0, :, 0, 0]))
    for colour in ([1.0, 1.0, 1.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]):
        eye(torch.tensor(colour).expand(1, 1, 9, 9, 3), torch.zeros(1, 1), torch.zeros(1, 1).bool())
    white, red, blue = seen
    torch.testing.assert_close(white, torch.tensor([1.0, 0.0, 0.0]), rtol=0, atol=1e-4)  # grey has no colour
    assert red[2] > 0.5 > 0.2 > red[0].abs() - 0.1
    assert blue[1] > 0.4
    assert blue[0].item() == pytest.approx(0.114)


@pytest.mark.parametrize(
    ("image", "message"),
    [
        ({"conv": [[4, 25, 1]]}, "conv leaves nothing of images of 20 x 24 pixels"),
        ({"conv": []}, "conv must hold a convolution at least"),
        ({"conv": [[4, 3, 0]]}, "stride of conv must be at least 1, got 0"),
        ({"size": [20, 24, 3]}, r"size must be height and width of the images, got \[20, 24, 3\]"),
        ({"tokens": "rows"}, "tokens must be one of"),
        ({"activation": "swish"}, "activation must be one of"),
    ],
)
def test_bad_eyes_are_refused(image, message):
    with pytest.raises(ValueError, match=message):
        network(**image) if "conv" not in image else ImageEncoder((20, 24), 3, image["conv"])


def test_what_does_not_fit_images_is_refused():
    with pytest.raises(ValueError, match="columns as tokens need sequences of one image, got 2 steps"):
        network("columns")(*images(1, 2))
    with pytest.raises(ValueError, match="conv is for features along time"):
        TaskNetwork("sdpa", Kind.CLASSIFICATION, 3, 5, conv=[[4, 3, 1]], image={"size": [20, 24], "conv": CONV})
    with pytest.raises(ValueError, match="'yuv' is made of red, green and blue"):
        ImageEncoder((20, 24), 1, CONV, colours="yuv")
