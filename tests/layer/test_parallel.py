"""Data-parallel training: two processes see half of the batch each and agree with one that sees it all."""

import subprocess
import sys

import pytest
import torch

import nacre

WORKER = """
import os
import sys
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
import nacre

rank = int(sys.argv[1])
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=rank, world_size=2)
net = DistributedDataParallel(nacre.load("net"))
data = {k: v[rank::2] for k, v in torch.load("data.pt").items()}
y = net(data["x"], time=data["time"], key_padding_mask=data["padding"])
(y * data["pull"]).sum(-1).mean().backward()
if rank == 0:
    torch.save({k: p.grad for k, p in net.module.named_parameters()}, "gradients.pt")
dist.barrier()  # a process that leaves early may take the other's threads with it
# DistributedDataParallel keeps Gloo's threads alive after destroy_process_group, and one that is still there when
# Python shuts down aborts the process now and then. All work is done, so leave without shutting down.
os._exit(0)
"""


@pytest.mark.slow
@pytest.mark.parametrize("share", [pytest.param(False, marks=pytest.mark.deep), True])
def test_two_processes_give_the_gradients_of_one(share, tmp_path):
    config = nacre.NACConfig(d_model=8, num_heads=2, d_input=5, backbone_units=12, share_backbone=share)
    net = nacre.NACEncoder(config, num_layers=2)
    nacre.save(net, tmp_path / "net")
    data = {"x": torch.randn(6, 25, 5), "time": torch.rand(6, 25).cumsum(1), "pull": torch.randn(6, 25, 8)}
    data["padding"] = torch.arange(25) >= torch.tensor([25, 20, 15, 10, 5, 1])[:, None]
    torch.save(data, tmp_path / "data.pt")
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, str(rank), str(tmp_path / "meeting")],
            cwd=tmp_path,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    for worker in workers:
        _, errors = worker.communicate(timeout=120)
        assert worker.returncode == 0, errors
    y = net(data["x"], time=data["time"], key_padding_mask=data["padding"])
    (y * data["pull"]).sum(-1).mean().backward()
    found = torch.load(tmp_path / "gradients.pt")
    for name, parameter in net.named_parameters():
        torch.testing.assert_close(found[name], parameter.grad, rtol=0, atol=1e-6)
        assert found[name].abs().max() > 0, name
