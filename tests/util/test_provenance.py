"""Where a measurement comes from: `tests/bench` checks the commit."""

import platform
from pathlib import Path

import torch

from nacre._util.provenance import cpu_info, provenance


def test_the_device_is_what_torch_would_use(monkeypatch):
    assert provenance(3, "mps")["machine"]["device"] == "mps"
    for there, device in ((True, "cuda"), (False, "cpu")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda there=there: there)
        machine = provenance(3)["machine"]
        assert machine["device"] == device
        assert machine["threads"] == 3
    assert provenance()["machine"]["threads"] == torch.get_num_threads()


def test_the_processor_has_its_name(monkeypatch):
    text = "processor\t: 0\nmodel name\t: Fast CPU @ 2.0 GHz: new\nflags\t\t: fpu sse\nmodel name\t: other\n"
    monkeypatch.setattr(Path, "read_text", lambda self: text)
    assert provenance()["machine"]["processor"] == "Fast CPU @ 2.0 GHz: new"
    assert cpu_info("Features", "flags") == "flags\t\t: fpu sse"

    def missing(_):
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_text", missing)  # as on other systems than Linux
    for known in ("arm", ""):
        monkeypatch.setattr(platform, "processor", lambda known=known: known)
        assert provenance()["machine"]["processor"] == (known or None)
