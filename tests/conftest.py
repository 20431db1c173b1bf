"""Shared by all tests: one seed, single-threaded torch so that parallel workers do not fight, and Ctrl-C."""

import signal

import pytest
import torch
from hypothesis import settings

from nacre.native import library
from support.hypothesis import DEEP

# A first example may import a package, or wait for the other worker: its time says nothing.
settings.register_profile("nacre", deadline=None, max_examples=100 if DEEP else 20)
settings.load_profile("nacre")

# A shell without job control starts background commands with SIGINT ignored, and so would be what tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)
    torch.set_num_threads(1)


@pytest.fixture(params=["kernels", "torch"], scope="module")
def either_path(request):
    """Run a module's tests twice: by the compiled kernels, and by the PyTorch code that replaces them."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "torch":
            patch.setattr(library, "runs", lambda *tensors: False)
        else:
            assert library.library() is not None
        yield request.param


@pytest.fixture(scope="module")
def viewed(tmp_path_factory):
    """A folder of recordings and the port of a viewer of them."""
    from support.viewer import viewing

    with viewing(tmp_path_factory.mktemp("viewed")) as viewed:
        yield viewed


@pytest.fixture
def search(tmp_path, monkeypatch):
    """A search of three short trials, in an empty folder that holds its recipe."""
    from nacre.tasks.recipe import Profile
    from nacre.train.tuning.tune import Tune
    from support.train import MODEL, TINY_TOML

    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.toml").write_text(TINY_TOML % 6)
    return Tune("tiny.toml", MODEL, 3, Profile.QUICK, only=("lr", "d_model", "layer.mode"), out=tmp_path / "out")
