"""`nacre data`: what is printed, what is fetched, what fails."""

import hashlib
import re
from dataclasses import replace

import pytest
import torch

from nacre.data.dataset import Dataset, Kind
from nacre.data.files import catalogue, listing, store
from nacre.data.sets import spirals
from support.datasets import jena_file


@pytest.fixture(autouse=True)
def _clean(monkeypatch, tmp_path):
    monkeypatch.delenv("NACRE_DATA", raising=False)
    monkeypatch.setenv("NACRE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def jena(tmp_path):
    """A folder with a small Jena file of the official form."""
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "jena_climate_2009_2016.csv").write_bytes(jena_file(range(0, 1000, 10)))
    return folder


@pytest.fixture
def no_network(monkeypatch):
    """Every address answers with an error; returns what was asked for."""
    asked = []

    def refuse(url, **_):
        import requests

        asked.append(url)
        raise requests.ConnectionError("no network here")

    monkeypatch.setattr("requests.get", refuse)
    return asked


def generated():
    ones = torch.ones(4, dtype=torch.int64)
    return Dataset("spiral", Kind.CLASSIFICATION, torch.zeros(4, 1), torch.zeros(4).double(), ones.cumsum(0) - 1,
                   ones, ones - 1, ones - 1, ("all",), ("x",), ("a", "b"))  # fmt: skip


def test_every_data_set_has_a_loader_of_its_name(monkeypatch):
    names = "event-mnist person-activity ettm1 jena physionet2012 carracing udacity bearings spiral"
    assert set(catalogue.CATALOG) == {*names.split()}
    called = []
    for name, entry in catalogue.CATALOG.items():
        loader = "nacre.data.sets." + entry.loader.replace(":", ".")
        monkeypatch.setattr(loader, lambda *args, name=name: called.append((name, args)))
        catalogue.load_dataset(name, "folder")
    assert called == [(name, () if name == "spiral" else ("folder",)) for name in catalogue.CATALOG]


def test_the_list_says_what_is_there_and_what_is_missing(jena, capsys):
    listing.print_data(jena)
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.strip()}
    assert re.search(r"official 2009-2016; in .*data +0\.0", lines["jena"])
    assert "missing" in lines["ettm1"]
    assert "generated" in lines["spiral"]


def test_the_list_gives_sizes_in_megabytes(jena, capsys):
    (jena / "ETTm1.csv").write_bytes(b"x" * 12_340_000)
    listing.print_data(jena)
    assert re.search(r"^ *ettm1 .* 12\.3 *$", capsys.readouterr().out, re.MULTILINE)


def test_checking_prints_what_a_data_set_holds(jena, capsys):
    listing.check_data(["jena"], jena)
    out = capsys.readouterr().out
    digest = hashlib.sha256((jena / "jena_climate_2009_2016.csv").read_bytes()).hexdigest()
    parts = ["official 2009-2016 (checksum not known", "29 sequences of 48 to 48 steps, mean 48.0"]
    parts += ["100 rows of 14: p (mbar), T (degC)", "groups: 1, jena to jena", digest]
    parts += ["numbers asked for: 24, T+1 to T+24"]
    for part in parts:
        assert part in out


def test_checking_prints_classes_and_notes(monkeypatch, capsys):
    data = replace(generated(), notes=("something [odd]",), test=torch.tensor([False, True, True, True]))
    monkeypatch.setattr(spirals, "load_spirals", lambda: data, raising=False)
    listing.check_data(["spiral"])
    out = capsys.readouterr().out
    assert "2 classes: a, b" in out
    assert "official test part: 3 sequences" in out
    assert "note: something [odd]" in out


def test_checking_names_a_few_numbers_one_by_one(capsys):
    listing.check_data(["spiral"])
    assert "numbers asked for: 2, x, y" in capsys.readouterr().out


def test_checking_goes_on_after_a_failure_and_lists_all(jena, capsys, no_network):
    (jena / "ETTm1.csv").write_bytes(b"cut off")
    with pytest.raises(ValueError, match="ettm1") as error:
        listing.check_data(["ettm1", "event-mnist", "jena"], jena)
    first, second = str(error.value).splitlines()
    assert "ETTm1.csv is not the ETTm1.csv that nacre knows: its 7 bytes" in first
    assert second == "event-mnist: missing; run `nacre data get event-mnist`"
    assert "jena: official" in capsys.readouterr().out
    assert no_network == []


def test_checking_all_passes_over_what_is_missing(jena, capsys, monkeypatch, no_network):
    monkeypatch.setattr(spirals, "load_spirals", generated, raising=False)
    listing.check_data([], jena)
    out = capsys.readouterr().out
    assert "ettm1: missing" in out
    assert "100 rows of 14" in out
    assert no_network == []


def test_an_unknown_name_is_refused_before_anything_is_done(jena, capsys, no_network):
    for act in (listing.check_data, listing.get_data):
        with pytest.raises(ValueError, match="did you mean 'jena'"):
            act(["ettm1", "jenna"], jena)
    assert no_network == []
    assert capsys.readouterr().out == ""


def test_getting_keeps_and_checks_what_is_there(jena, capsys, no_network):
    listing.get_data(["jena", "spiral"], jena)
    out = capsys.readouterr().out
    assert "jena: official 2009-2016 (checksum not known to nacre); in" in out
    assert "spiral: generated" in out
    assert no_network == []


def test_getting_tries_all_and_lists_what_failed(jena, no_network, tmp_path):
    (jena / "ETTm1.csv").write_bytes(b"cut off")
    with pytest.raises(ValueError, match="no network here") as error:
        listing.get_data(["event-mnist", "ettm1", "person-activity"], jena)
    mnist, ett, person = str(error.value).splitlines()
    assert mnist.startswith(
        "event-mnist: train-images-idx3-ubyte is missing and could not be fetched from https://"
    )
    assert f"into {jena / 'mnist'}" in mnist
    assert "delete" in ett
    assert "localization+data+for+person+activity.zip" in person
    assert len(no_network) == 2


def test_getting_puts_files_into_the_cache_unless_told_otherwise(monkeypatch, tmp_path, capsys):
    asked = []
    found = store.FoundFiles(catalogue.CATALOG["jena"].forms[0], (tmp_path / "jena.csv",))
    (tmp_path / "jena.csv").write_bytes(b"whatever")

    def fetch(name, into, show):
        show(5, 10)
        asked.append((name, into))
        return found

    monkeypatch.setattr(listing, "fetch", fetch)
    listing.get_data(["jena"])
    listing.get_data(["jena"], tmp_path)
    assert asked == [("jena", tmp_path / "cache"), ("jena", tmp_path)]
