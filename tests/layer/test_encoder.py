"""The stack: what holds for a layer holds for it."""

import pytest
import torch

import nacre


def encoder(num_layers=2, dtype=torch.float64, d_feedforward=None, **options):
    config = nacre.NACConfig(**{"d_model": 8, "num_heads": 2, "d_input": 3, "backbone_units": 12, **options})
    return nacre.NACEncoder(config, num_layers, d_feedforward=d_feedforward, dtype=dtype).eval()


def data(batch=3, length=30):
    x = torch.randn(batch, length, 3, dtype=torch.float64)
    return x, torch.rand(batch, length, dtype=torch.float64).cumsum(1)


def test_it_is_the_stack_it_says():
    net = encoder()
    x, time = data()
    y = net.embed(x)
    for block in net.layers:
        y = y + block.attention(block.attention_norm(y), time=time)
        y = y + block.feedforward(block.feedforward_norm(y))
    torch.testing.assert_close(net(x, time=time), net.norm(y), rtol=0, atol=0)


def test_every_parameter_gets_a_gradient():
    net = encoder()
    x, time = data()
    (net(x, time=time) * torch.randn(8)).sum().backward()
    for name, parameter in net.named_parameters():
        assert (parameter.grad != 0).any(), name


def test_layers_draw_wirings_of_their_own():
    net = encoder()
    first, second = (block.attention.backbone.wiring for block in net.layers)
    assert (first.adjacency != second.adjacency).any()


def test_options_reach_every_layer():
    net = encoder(num_layers=3, d_feedforward=5, mode="steady", dropout=0.25, time_scale=3.0)
    assert len(net.layers) == 3
    for block in net.layers:
        config = block.attention.config
        assert (config.mode, config.time_scale, config.dropout, config.width) == ("steady", 3.0, 0.25, 8)
        assert block.feedforward[0].out_features == 5
        assert block.dropout.p == 0.25
    assert encoder(d_input=None).embed is None
    assert encoder(d_input=8).embed is None


def test_time_matters_and_a_shift_does_not():
    net = encoder()
    x, time = data()
    y = net(x, time=time)
    assert (net(x, time=2 * time) - y).abs().max() > 1e-4
    torch.testing.assert_close(net(x, time=time + 1000), y, rtol=0, atol=1e-9)


@pytest.mark.parametrize("poison", [0.0, torch.nan, torch.inf, 1e30])
def test_padding_changes_nothing(poison):
    net = encoder()
    x, time = data()
    padding = torch.arange(30) >= torch.tensor([[30], [20], [4]])
    y = net(x, time=time, key_padding_mask=padding)
    spoilt, late = x.masked_fill(padding[..., None], poison), time.masked_fill(padding, poison)
    assert torch.equal(net(spoilt, time=late, key_padding_mask=padding), y)
    assert (y[padding] == 0).all()
    net.train()
    net(spoilt, time=late, key_padding_mask=padding).square().sum().backward()
    assert all(p.grad.isfinite().all() for p in net.parameters())


def test_a_batch_equals_its_samples():
    net = encoder()
    x, time = data()
    parts = [net(x[i : i + 1], time=time[i : i + 1]) for i in range(3)]
    torch.testing.assert_close(net(x, time=time), torch.cat(parts), rtol=0, atol=1e-12)


def test_the_future_changes_nothing():
    net = encoder(causal=True, block_size=4)
    x, time = data()
    later = x.clone()
    later[:, 17:] = torch.nan
    assert torch.equal(net(later, time=time)[:, :17], net(x, time=time)[:, :17])


@pytest.mark.parametrize("mode", ["exact", "euler", "steady"])
def test_step_equals_forward(mode):
    net = encoder(causal=True, block_size=4, mode=mode)
    x, time = data(length=15)
    states, outputs = net.init_state(3, max_len=15), []
    for i in range(15):
        y, states = net.step(x[:, i], states, time=time[:, i])
        outputs.append(y)
    torch.testing.assert_close(torch.stack(outputs, 1), net(x, time=time), rtol=0, atol=1e-12)


def test_saved_and_loaded_it_is_the_same(tmp_path):
    net = encoder(d_feedforward=7, wiring="random")
    x, time = data()
    nacre.save(net, tmp_path)
    assert torch.equal(nacre.load(tmp_path).eval()(x, time=time), net(x, time=time))


def test_certify_names_its_layers():
    with pytest.raises(TypeError, match="layers.0.attention, layers.1.attention"):
        nacre.certify(encoder(), *data())


class TestBadInput:
    def test_config(self):
        with pytest.raises(TypeError, match=r"config must be a nacre\.NACConfig, got int"):
            nacre.NACEncoder(64, 4)

    def test_numbers(self):
        with pytest.raises(ValueError, match="num_layers must be at least 1"):
            encoder(num_layers=0)
        with pytest.raises(ValueError, match="d_feedforward must be at least 1"):
            encoder(d_feedforward=0)

    def test_inputs(self):
        with pytest.raises(ValueError, match="x must have 3 numbers"):
            encoder()(torch.randn(1, 5, 4).double())
        with pytest.raises(ValueError, match="key_padding_mask must have shape"):
            encoder()(data()[0], key_padding_mask=torch.zeros(3, 29, dtype=torch.bool))

    def test_states(self):
        net = encoder(causal=True)
        x, _ = data()
        states = net.init_state(3)
        with pytest.raises(ValueError, match="states must be 2, one for each layer, got 1"):
            net.step(x[:, 0], states[:1])
        with pytest.raises(ValueError, match="another layer"):
            net.step(x[:, 0], states[::-1])
        with pytest.raises(ValueError, match="needs a causal layer"):
            encoder().init_state(1)
        with pytest.raises(ValueError, match="state is of 3 streams but x has 2 rows"):
            net.step(x[:2, 0], states)
        with pytest.raises(ValueError, match="x must have 3 numbers"):
            net.step(torch.randn(3, 4).double(), states)
