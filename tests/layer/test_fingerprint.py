"""State dicts say to which synapses their weights belong: another wiring refuses them, all else keeps them."""

import copy

import ncps.wirings
import pytest
import torch
from safetensors.torch import load_file, load_model, save_file, save_model
from torch import nn

import nacre
from nacre.data.dataset import Kind
from support.saved import write_tensors

OTHER = "belong to another wiring"
OLD = "does not say to which wiring .* strict=False.* takes the weights unchecked; nacre.load opens old"


def with_twin(make):
    """A module and one of another wiring whose weights have the same shapes."""
    first = make(0)
    shapes = {name: value.shape for name, value in first.state_dict().items()}
    seeds = (make(seed) for seed in range(1, 200))
    return first, next(m for m in seeds if {n: v.shape for n, v in m.state_dict().items()} == shapes)


def network(seed):
    return nacre.TaskNetwork(
        "nac", Kind.CLASSIFICATION, 3, 2, d_model=8, num_heads=2, options={"seed": seed, "backbone_units": 8}
    )


MAKERS = {
    "nac": lambda seed: nacre.NAC(8, 2, seed=seed, backbone_units=8),
    "encoder": lambda seed: nacre.NACEncoder(nacre.NACConfig(d_model=8, num_heads=2, seed=seed), num_layers=1),
    "network": network,
    "nested": lambda seed: nn.Sequential(nn.Linear(8, 8), nn.ModuleDict({"a": nacre.NAC(8, 2, seed=seed)})),
    "cfc-ncp": lambda seed: nacre.create("cfc-ncp", d_input=3, d_model=8, num_heads=1, seed=seed),
    "ltc-ncp": lambda seed: nacre.create("ltc-ncp", d_input=3, d_model=8, num_heads=1, seed=seed),
    "cell": lambda seed: nacre.NCPCell(nacre.Wiring.from_ncps(ncps.wirings.AutoNCP(9, 2, seed=seed), 4)),
}


@pytest.mark.parametrize("case", MAKERS)
def test_weights_of_another_wiring_are_refused(case):
    first, other = with_twin(MAKERS[case])
    for how in ({}, {"strict": False}, {"assign": True}):
        with pytest.raises(RuntimeError, match=OTHER):
            other.load_state_dict(first.state_dict(), **how)
    again = MAKERS[case](0)
    assert str(again.load_state_dict(first.state_dict())) == "<All keys matched successfully>"


def test_groups_and_what_acts_count_too():
    """Two neurons in a ring: which of them is read out changes no shape."""
    ring, feeds = [[0, 1], [1, 0]], [[1, 1]]
    cells = [
        nacre.NCPCell(nacre.Wiring(ring, feeds, groups)) for groups in (("motor", "inter"), ("inter", "motor"))
    ]
    with pytest.raises(RuntimeError, match=OTHER):
        cells[1].load_state_dict(cells[0].state_dict())


def test_the_wiring_of_a_name_is_the_same_wiring():
    layer = nacre.NAC(8, 2)
    wiring = layer.backbone.wiring
    mine = nacre.NAC(8, 2, wiring=nacre.Wiring(wiring.adjacency, wiring.input_adjacency, wiring.groups, "mine"))
    mine.load_state_dict(layer.state_dict())


def without_fingerprints(module):
    return {name: value for name, value in module.state_dict().items() if not name.endswith("_extra_state")}


def test_old_state_dicts_say_what_to_do():
    layer = nacre.NAC(8, 2)
    old = without_fingerprints(layer)
    with pytest.warns(UserWarning, match=OLD), pytest.raises(RuntimeError, match="Missing key.*_extra_state"):
        nacre.NAC(8, 2).load_state_dict(old)
    loaded = nacre.NAC(8, 2)
    with pytest.warns(UserWarning, match=OLD):
        assert len(loaded.load_state_dict(old, strict=False).missing_keys) == 4
    x = torch.randn(2, 9, 8)
    assert torch.equal(loaded(x), layer(x))


def test_a_state_dict_of_something_else_gets_no_advice_about_wirings():
    with pytest.raises(RuntimeError, match="Missing key"):  # and no warning, which would be an error here
        nacre.NAC(8, 2).load_state_dict(nn.Linear(2, 2).state_dict())


def same(module, state):
    fresh = MAKERS["nac"](0)
    fresh.to(next(module.parameters()).dtype).load_state_dict(state)
    x = torch.randn(2, 9, 8, dtype=next(module.parameters()).dtype)
    return torch.equal(fresh(x), module(x))


def test_files_keep_it(tmp_path):
    layer, other = with_twin(MAKERS["nac"])
    save_file(layer.state_dict(), tmp_path / "a.safetensors")
    save_model(layer, str(tmp_path / "b.safetensors"))
    torch.save(layer.state_dict(), tmp_path / "c.pt")
    states = [
        load_file(tmp_path / "a.safetensors"),
        load_file(tmp_path / "b.safetensors"),
        torch.load(tmp_path / "c.pt", weights_only=True),
    ]
    for state in states:
        assert same(layer, state)
        with pytest.raises(RuntimeError, match=OTHER):
            other.load_state_dict(state)
    with pytest.raises(RuntimeError, match=OTHER):
        load_model(other, tmp_path / "b.safetensors")


def test_types_devices_and_copies_keep_it():
    layer = MAKERS["nac"](0)
    for changed in (copy.deepcopy(layer), copy.deepcopy(layer).double(), copy.deepcopy(layer).to(torch.bfloat16)):
        assert same(changed, changed.state_dict())
    converted = {name: value.half() for name, value in layer.state_dict().items()}  # the fingerprint as well
    MAKERS["nac"](0).load_state_dict(converted)
    with torch.device("meta"):
        hollow = MAKERS["nac"](0)
    assert all(torch.equal(hollow.state_dict()[n], v) for n, v in layer.state_dict().items() if "_extra" in n)


def test_averages_keep_it():
    layer, x = MAKERS["nac"](0), torch.randn(2, 9, 8)
    for average in (None, torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)):
        averaged = torch.optim.swa_utils.AveragedModel(layer, multi_avg_fn=average, use_buffers=True)
        for _ in range(3):
            averaged.update_parameters(layer)
        layer.load_state_dict(averaged.module.state_dict())
    states = [layer.state_dict(), layer.state_dict(), layer.state_dict()]
    mean = {name: sum(state[name] for state in states) / 3 for name in states[0]}
    layer.load_state_dict(mean)
    moving = {name: 0.999 * value + 0.001 * value for name, value in states[0].items()}
    layer.load_state_dict(moving)
    assert torch.equal(torch.func.functional_call(layer, layer.state_dict(), x), layer(x))


def test_it_is_no_parameter_and_no_buffer():
    layer = nacre.NAC(8, 2)
    names = {name for name, _ in [*layer.named_parameters(), *layer.named_buffers()]}
    assert not any("extra" in name for name in names)
    marks = [value for name, value in layer.state_dict().items() if name.endswith("_extra_state")]
    assert len(marks) == 4
    marks[0].zero_()  # a copy: who writes to it changes no module
    nacre.NAC(8, 2).load_state_dict(layer.state_dict())


def test_saved_directories_are_checked_and_old_ones_open(tmp_path):
    layer, x = nacre.NAC(8, 2), torch.randn(2, 9, 8)
    nacre.save(layer, tmp_path)
    write_tensors(tmp_path, without_fingerprints(layer))
    assert torch.equal(nacre.load(tmp_path)(x), layer(x))
    for damaged in (torch.zeros(16).long(), torch.zeros(3), torch.zeros(16, dtype=torch.complex64)):
        write_tensors(tmp_path, layer.state_dict() | {"backbone.weights._extra_state": damaged})
        with pytest.raises(ValueError, match=f"does not describe its weights: (.|\n)*{OTHER}"):
            nacre.load(tmp_path)
    partly = layer.state_dict()
    del partly["backbone.weights._extra_state"]
    write_tensors(tmp_path, partly)
    with pytest.raises(ValueError, match="missing backbone.weights._extra_state"):
        nacre.load(tmp_path)
