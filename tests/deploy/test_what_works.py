"""The table of docs/deploy.md says what works: each of its rows is tried here."""

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import nacre
from support.models import make
from support.pages import DOCS


def layer():
    return nacre.NAC(8, 2, backbone_units=12)


def data(length=9):
    return torch.randn(2, length, 8), torch.rand(2, length).cumsum(1)


def onnx(tmp_path):
    with pytest.raises(ValueError, match="single precision"):
        nacre.export(make("sdpa").half(), tmp_path / "m.onnx")
    # That the others can is in tests/deploy/test_export.py, which leaves out those that the page names.
    assert "`cta`, `contiformer`" in (DOCS / "deploy.md").read_text()


def runtime(tmp_path):
    import nacre_runtime

    assert not hasattr(nacre_runtime.Model, "backward")


def compiled(tmp_path):
    net = layer().eval()
    x, time = data()
    same = torch.compile(net, fullgraph=True, backend="eager")
    torch.testing.assert_close(same(x, time=time), net(x, time=time), rtol=1e-4, atol=1e-5)


def exported(tmp_path):
    program = torch.export.export(layer().eval(), (data()[0],))
    assert program.module()(data()[0]).shape == (2, 9, 8)
    steps = {1: torch.export.Dim("steps")}
    with pytest.raises(Exception, match="specialized"):  # a loop over time is as long as the example
        torch.export.export(make("cfc-fc").eval(), (torch.randn(2, 9, 5),), dynamic_shapes=(steps,))


def torchscript(tmp_path):
    with pytest.raises(Exception, match="annotation"):
        torch.jit.script(layer())
    with pytest.raises(Exception, match="INTERNAL ASSERT|trac"):
        torch.jit.trace(layer().eval(), (data()[0],), check_trace=False)


def checkpointed(tmp_path):
    net, (x, time) = layer(), data()
    net(x, time=time).sum().backward()
    grads = [p.grad.clone() for p in net.parameters()]
    net.zero_grad()
    checkpoint(net, x, use_reentrant=False, time=time).sum().backward()
    torch.testing.assert_close([p.grad for p in net.parameters()], grads)


def half(tmp_path):
    x, time = data()
    assert layer().bfloat16()(x.bfloat16(), time=time).dtype == torch.bfloat16
    assert layer().half()(x.half(), time=time).dtype == torch.float16
    with torch.autocast("cpu", torch.bfloat16):
        assert layer()(x, time=time).isfinite().all()


ROWS = {
    "ONNX": onnx,
    "`nacre-runtime`": runtime,
    "`torch.compile`": compiled,
    "`torch.export`": exported,
    "TorchScript": torchscript,
    "gradient checkpointing": checkpointed,
    "half precision": half,
}


def test_the_table_has_these_rows():
    lines = (DOCS / "deploy.md").read_text().split("|---|---|---|---|\n")[1].split("\n\n")[0].splitlines()
    assert [line.split(" | ")[0].removeprefix("| ") for line in lines] == list(ROWS)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # torch's own: deprecated TorchScript, and what compiling says
@pytest.mark.parametrize("row", ROWS)
def test_a_row(row, tmp_path):
    ROWS[row](tmp_path)
