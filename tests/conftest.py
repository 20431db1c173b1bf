"""Shared by all tests: one seed, and single-threaded torch so that parallel workers do not fight."""

import pytest
import torch


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)
    torch.set_num_threads(1)
