"""torch.export: one program for all batch sizes and lengths, equal to eager, in another process too."""

import subprocess
import sys

import pytest
import torch
from torch.export import Dim, export, load, save

import nacre
from support.cases import PLUS, some

NETS = {
    "causal": lambda: nacre.NAC(8, 2, causal=True, backbone_units=12),
    "blocks": lambda: nacre.NAC(8, 2, block_size=4, mode="euler", backbone_units=12),
    "exact selection": lambda: nacre.NAC(8, 2, selection="exact", mode="steady", backbone_units=12),
    "all pairs": lambda: nacre.NAC(8, 2, top_k=None, backbone_units=12),
    "match": lambda: nacre.NAC(8, 2, match="both", reach=20, causal=True, backbone_units=12),
    "plus": lambda: nacre.NAC(8, 2, **PLUS),
    "plus, causal": lambda: nacre.NAC(8, 2, causal=True, **PLUS),
    "two layers": lambda: nacre.NACEncoder(nacre.NACConfig(d_model=8, num_heads=2, backbone_units=12), 2),
}


def inputs(batch, length):
    x, time = torch.randn(batch, length, 8), torch.rand(batch, length).cumsum(1)
    return x, time, torch.rand(batch, length) > 0.8


def exported(net):
    axes = {0: Dim("batch"), 1: Dim("time")}
    x, time, padding = inputs(3, 20)
    first = "x" if isinstance(net, nacre.NACEncoder) else "query"
    return export(
        net,
        (x,),
        {"time": time, "key_padding_mask": padding},
        dynamic_shapes={first: axes, "time": axes, "key_padding_mask": axes},
    )


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A function from the name of a net to it and the file of its program, made once each."""
    folder, made = tmp_path_factory.mktemp("programs"), {}

    def get(name):
        path = folder / f"{name}.pt2"
        if name not in made:
            made[name] = NETS[name]().eval()
            save(exported(made[name]), path)
        return made[name], path

    return get


@pytest.mark.slow
@pytest.mark.parametrize("name", some(NETS, "plus"))
def test_every_length_and_batch_size_equals_eager(name, saved):
    net, path = saved(name)
    program = load(path).module()
    with torch.no_grad():
        for batch in (1, 2, 5):
            for length in (1, 7, 33, 130):
                x, time, padding = inputs(batch, length)
                torch.testing.assert_close(
                    program(x, time=time, key_padding_mask=padding),
                    net(x, time=time, key_padding_mask=padding),
                    rtol=0,
                    atol=1e-6,
                )


@pytest.mark.slow
def test_another_process_needs_only_to_import_nacre(saved, tmp_path):
    net, path = saved("plus")
    x, time, padding = inputs(2, 31)
    torch.save({"x": x, "time": time, "key_padding_mask": padding}, tmp_path / "in.pt")
    code = (
        "import sys, torch, nacre; arguments = torch.load('in.pt');"
        "program = torch.export.load(sys.argv[1]).module();"
        "torch.save(program(arguments.pop('x'), **arguments), 'out.pt')"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], cwd=tmp_path, check=True, capture_output=True)
    expected = net(x, time=time, key_padding_mask=padding)
    torch.testing.assert_close(torch.load(tmp_path / "out.pt"), expected, rtol=0, atol=1e-6)


class Step(torch.nn.Module):
    """A layer's step as a program: (x, state, time) -> (y, state)."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x, state, time):
        return self.layer.step(x, state, time=time)


@pytest.mark.slow
@pytest.mark.parametrize("name", some(["causal", "match", "plus, causal"], "plus, causal"))
def test_a_step_can_be_exported_too(name):
    layer = NETS[name]().eval()
    rows = {0: Dim("batch")}
    state_axes = nacre.StreamState(
        **dict.fromkeys(nacre.StreamState._fields, rows) | {"limit": None, "owner": None}
    )
    x, time, _ = inputs(3, 20)
    program = export(
        Step(layer),
        (x[:, 0], layer.init_state(3, max_len=25), time[:, 0]),
        dynamic_shapes=(rows, state_axes, rows),
    ).module()
    x, time, _ = inputs(2, 20)
    state, twin = layer.init_state(2, max_len=25), layer.init_state(2, max_len=25)
    for i in range(20):
        y, state = program(x[:, i], state, time[:, i])
        expected, twin = layer.step(x[:, i], twin, time=time[:, i])
        torch.testing.assert_close(y, expected, rtol=0, atol=1e-6)
