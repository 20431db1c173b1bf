"""Unpacking: what a small file may become is limited, and the limit is named."""

import gzip
import io
import zipfile

import pytest

from nacre._util import unpack
from nacre._util.unpack import gunzip, most_bytes, read_member
from support.refused import refused


def zipped(**members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return zipfile.ZipFile(file)


@pytest.fixture
def low(monkeypatch):
    monkeypatch.setattr(unpack, "FLOOR", 1000)


def test_up_to_the_limit_everything_comes_out(low):
    assert gunzip(gzip.compress(b"x" * 1000)) == b"x" * 1000
    data = bytes(range(256)) * 90  # 46 times its packed size
    assert 1000 < len(data) < most_bytes(len(gzip.compress(data)))
    assert gunzip(gzip.compress(data)) == data
    assert gunzip(gzip.compress(b"a") + gzip.compress(b"b")) == b"ab"  # two streams in one file
    assert read_member(zipped(a=b"x" * 1000), "a") == b"x" * 1000


def test_beyond_the_limit_nothing_does(low):
    bomb = b"0" * 1_000_000
    packed = gzip.compress(bomb)
    with refused(f"unpacks to more than {100 * len(packed):,} bytes; if it is right, unpack it by other means"):
        gunzip(packed)
    with refused("^a unpacks to more than [0-9,]+ bytes"):
        read_member(zipped(a=bomb), "a")


def test_damage_is_left_to_the_caller():
    for damaged in (b"", b"\x1f\x8b", b"hello", gzip.compress(b"hello" * 99)[:-9]):
        if damaged:
            with pytest.raises((OSError, EOFError)):
                gunzip(damaged)
