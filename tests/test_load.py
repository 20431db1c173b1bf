"""What `nacre.load` promises of any files: a module that runs, ValueError or OSError, and little memory."""

import os

import pytest
import torch

import nacre
from nacre.data.dataset import Kind
from support.memory import takes_at_most
from support.refused import refused
from support.saved import read_header, read_tensors, weights_of, write_header, write_tensors, write_weights


@pytest.fixture
def saved(tmp_path):
    return nacre.save(nacre.NAC(8, 2), tmp_path / "saved")


def network(model="nac", **options):
    return nacre.TaskNetwork(
        model, Kind.CLASSIFICATION, 3, 2, d_model=8, num_heads=2, dense=[4], dropout=0.5, options=options
    )


# What comes back.


def test_modules_come_back_in_evaluation_mode(tmp_path):
    again = nacre.load(nacre.save(network(), tmp_path))
    assert not any(module.training for module in again.modules())
    assert all(parameter.requires_grad for parameter in again.parameters())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("model", ["nac-plus", "cfc-ncp", "performer"])
def test_networks_keep_their_type(tmp_path, model, dtype):
    net = network(model).to(dtype).eval()
    again = nacre.load(nacre.save(net, tmp_path))
    types = [{name: value.dtype for name, value in m.state_dict().items()} for m in (net, again)]
    assert types[0] == types[1]
    call = torch.randn(2, 9, 3, dtype=dtype), torch.rand(2, 9).cumsum(1), torch.zeros(2, 9).bool()
    assert torch.equal(again(*call), net(*call))


def test_networks_of_several_types_keep_them(tmp_path):
    net = nacre.TaskNetwork("nac", Kind.REGRESSION, 3, 2, d_model=8, num_heads=2).eval()
    net.y_shift, net.y_scale = net.y_shift.double(), net.y_scale.double()  # answers in double precision
    again = nacre.load(nacre.save(net, tmp_path))
    call = torch.randn(2, 9, 3), torch.rand(2, 9).cumsum(1), torch.zeros(2, 9).bool()
    assert torch.equal(again(*call), net(*call))
    assert again(*call).dtype == torch.float64
    tensors = read_tensors(tmp_path)
    write_tensors(tmp_path, tensors | {"y_shift": tensors["y_shift"].float()})
    with refused("y_shift has type float32 and not float64"):
        nacre.load(tmp_path)


@pytest.mark.parametrize("model", ["phased-lstm", "mmrnn"])
def test_old_names_of_weights_are_known(tmp_path, model):
    """The LSTM of these models was called `step` before that became a method."""
    net = network(model).eval()
    net.y_scale = net.y_scale.double()
    nacre.save(net, tmp_path)
    header, old = read_header(tmp_path), lambda named: {n.replace(".cell.", ".step."): x for n, x in named.items()}
    assert old(header["types"]) != header["types"]
    write_header(tmp_path, header | {"types": old(header["types"])})
    write_tensors(tmp_path, old(read_tensors(tmp_path)))
    again, other = nacre.load(tmp_path), network(model).eval()
    other.load_state_dict(old(net.state_dict()))
    call = torch.randn(2, 9, 3), torch.rand(2, 9).cumsum(1), torch.zeros(2, 9).bool()
    assert torch.equal(again(*call), net(*call))
    assert torch.equal(other(*call), net(*call))


def test_loading_draws_no_random_numbers(saved):
    before = torch.random.get_rng_state()
    nacre.load(saved)
    assert torch.equal(torch.random.get_rng_state(), before)


# Runs.


def test_a_run_directory_opens(tmp_path):
    net = network()
    nacre.save(net, tmp_path / "model")
    (tmp_path / "result.json").write_text("{}")
    again = nacre.load(tmp_path)
    assert torch.equal(again.head[1].weight, net.head[1].weight)


def test_what_holds_no_model_says_what_was_looked_for(tmp_path):
    with pytest.raises(
        FileNotFoundError, match="no saved model in .*: neither model.json nor, as in a run, model/"
    ):
        nacre.load(tmp_path)
    with pytest.raises(FileNotFoundError, match="nowhere does not exist"):
        nacre.load(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError, match="file is a file; nacre.load wants the directory"):
        nacre.load(tmp_path / "file")
    (tmp_path / "result.json").write_text("{}")
    with pytest.raises(FileNotFoundError, match="is a run without a model: controls"):
        nacre.load(tmp_path)


# Files that were damaged, or made up.


def test_weights_that_are_none_are_refused(saved):
    for data in (b"12345", b"", b"\xff" * 100, b"\x02\0\0\0\0\0\0\0{}rest"):
        write_weights(saved, data)
        with refused("is damaged, it holds no tensors", case=repr(data)):
            nacre.load(saved)


HEADERS = {
    "list": "[" * 2000 + "]" * 2000,
    "objects": '{"a":' * 2000 + "1" + "}" * 2000,
    "config": '{"config": ' + "[" * 2000 + "]" * 2000 + "}",
    "number": '{"format": ' + "9" * 5000 + "}",
    "twice": '{"format": 1, "format": 1, "kind": "NAC"}',
    "utf-16": "\ud800",
}


@pytest.mark.parametrize("case", HEADERS)
def test_text_that_is_no_header_is_refused(saved, case):
    (saved / "model.json").write_bytes(HEADERS[case].encode(errors="surrogatepass"))
    with refused("model.json is damaged"):
        nacre.load(saved)


@pytest.mark.parametrize("name", ["format", "kind", "weights", "sha256", "config"])
def test_header_values_of_other_types_are_refused(saved, name):
    header = read_header(saved)
    for value in (None, True, 1.5, [], ["NAC"], {}, {"a": 1}, "", "x", -1):
        write_header(saved, header | {name: value})
        with refused("model.json|checksum differs", case=repr(value)):
            nacre.load(saved)


def test_a_header_of_absurd_size_is_not_read(saved):
    os.truncate(saved / "model.json", 10**9)
    with takes_at_most(5), refused("model.json has 1,000,000,000 bytes"):
        nacre.load(saved)


def test_weights_of_absurd_size_are_not_read(saved):
    weights_of(saved).write_bytes(b"")
    os.truncate(weights_of(saved), 10**8)
    with takes_at_most(5), refused("is damaged .100,000,000 bytes, checksum differs"):
        nacre.load(saved)


LARGE = {
    "sdpa": lambda h: h["config"].update(d_model=20_000),
    "cfc-ncp": lambda h: h["config"].update(d_model=20_000),
    "ltc-ncp": lambda h: h["config"].update(d_model=20_000),
    "ltc-fc": lambda h: h["config"].update(d_input=10**8),
    "cfc-fc": lambda h: h["config"].update(backbone_layers=10**9),
    "deepstate": lambda h: h["config"].update(layers=10**9),
    "s4": lambda h: h["config"].update(d_state=20_000),
    "mtan": lambda h: h["config"].update(d_time=10**12),
    "nac": lambda h: h["config"]["options"].update(settle_steps=10**9),
    "nac-plus": lambda h: h["config"]["options"].update(d_model=20_000),
    "width": lambda h: h["config"].update(d_model=20_000),
    "features": lambda h: h["config"].update(d_input=10**8),
    "units": lambda h: h["config"]["options"].update(backbone_units=20_000),
    "filters": lambda h: h["config"].update(conv=[[10**8, 1, 1]]),
    "dense": lambda h: h["config"].update(dense=[10**6, 10**6]),
}


@pytest.mark.parametrize("case", LARGE)
def test_large_modules_beside_small_weights_are_refused_before_they_are_made(tmp_path, case):
    known = case in nacre.list_models()
    nacre.save(nacre.create(case, d_input=3, d_model=8, num_heads=2) if known else network(), tmp_path)
    header = read_header(tmp_path)
    LARGE[case](header)
    write_header(tmp_path, header)
    with takes_at_most(40), refused("does not describe its weights"):
        nacre.load(tmp_path)


def test_tensors_that_do_not_fit_are_refused(saved):
    tensors = read_tensors(saved)
    name, value = "out_proj.weight", tensors["out_proj.weight"]
    changes = {
        "missing out_proj.weight": {name: None},
        "unexpected 'extra'": {"extra": value},
        r"out_proj.weight has shape \[4, 16\] and not \[8, 8\]": {name: value.reshape(4, 16)},
        "out_proj.weight has type float64 and not float32": {name: value.double()},
        "out_proj.weight has type int64 and not float32": {name: value.long()},
    }
    for message, change in changes.items():
        write_tensors(saved, {n: t for n, t in (tensors | change).items() if t is not None})
        with refused("does not describe its weights: (.|\n)*" + message, case=message):
            nacre.load(saved)


def test_all_weights_in_a_type_that_cannot_compute_are_refused(saved):
    tensors = {
        n: t if n.endswith("_extra_state") else t.to(torch.float8_e5m2) for n, t in read_tensors(saved).items()
    }
    write_tensors(saved, tensors)
    with refused("has type float8_e5m2"):
        nacre.load(saved)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_need_a_word(saved, value):
    tensors = read_tensors(saved)
    tensors["out_proj.weight"][3, 4] = value
    write_tensors(saved, tensors)
    with refused("has numbers in out_proj.weight that are not finite.*allow_nonfinite=True"):
        nacre.load(saved)
    assert not nacre.load(saved, allow_nonfinite=True).out_proj.weight.isfinite().all()


def test_options_that_contradict_the_wiring_are_refused(saved):
    header = read_header(saved)
    for change in ({"d_input": 5}, {"num_heads": 4}):
        options = header["config"]["options"] | change
        write_header(saved, header | {"config": header["config"] | {"options": options}})
        with refused("does not describe its weights", case=str(change)):
            nacre.load(saved)
