"""Certificates as data and as a report."""

import json
import math
from dataclasses import FrozenInstanceError

import pytest
import torch

import nacre
from nacre.certificates.bounds import certify
from reference.killing import batch, deafen


def test_the_report_is_an_aligned_table():
    found = certify(nacre.NAC(16, 2), *batch(), delta=0.05)
    verdict, size, _, *table, _, last = str(found).splitlines()
    assert verdict == "certificate holds"
    assert size == "sequences: 6, query-key pairs: 1,344, heads: 2"
    assert len(table) == 3
    assert len({len(line) for line in table}) == 1
    for title in ("head", "phi", "omega", "t", "logits", "bounds", "held", "time to 0.05", "arrived", "keys mean"):
        assert f" {title} " in f" {table[0]} "
    head = found.heads[1]
    assert f"{head.logits[0]:.3g} to {head.logits[1]:.3g}" in table[2]
    assert last == "neurons: none dead, none saturated"


def test_long_lists_are_cut_in_the_report_and_kept_in_the_data():
    layer = nacre.NAC(64, 4)
    with torch.no_grad():
        layer.out_proj.weight.zero_()
    found = certify(layer, *batch(2, width=64))
    assert len(found.dead) == 64
    lines = [line for line in str(found).splitlines() if line.startswith("dead")]
    assert len(lines) == 21
    assert lines[-1] == "dead: and 44 more"


def test_a_certificate_is_plain_data():
    layer = nacre.NAC(16, 2, mode="steady", integrate=False)
    deafen(layer.backbone.weights, layer.backbone.wiring.group("inter")[0])
    x, _ = batch()
    x[0, 0, 0] = math.nan
    found = certify(layer, x)
    data = found.to_dict()
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert data["ok"] is False
    assert data["heads"][1]["bounds_hold"] is True
    assert data["heads"][1]["t"] is None
    assert data["dead"][0]["group"] == "inter"
    assert data["inputs"][0]["positions"] == [[0, 0]]
    with pytest.raises(FrozenInstanceError):
        found.delta = 1.0
    assert hash(found) == hash(certify(layer, x))  # no tensors, no lists
