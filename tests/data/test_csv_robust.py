"""Damaged, huge and odd tables and arrays: a message of one line, and memory that stays small."""

import gzip

import numpy as np
import pytest
import torch

from nacre._util import unpack
from nacre.data import from_arrays, from_csv
from support.refused import refused

PULSE = "who,second,pulse,tag,state\n" + "".join(
    f"p{who},{t},{who}{t},red,{'ab'[who % 2]}\n" for who in range(4) for t in range(4)
)


@pytest.fixture
def read(tmp_path):
    def read_text(text, name="pulse.csv", **options):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return from_csv(path, **{"time": "second", "target": "state", "group": "who", **options})

    return read_text


def test_every_damage_to_a_packed_table_is_refused_or_harmless(read):
    packed = gzip.compress(PULSE.encode(), mtime=0)
    good, outcomes = read(packed, "a.csv.gz").digest, []
    for place in range(len(packed)):
        damaged = bytearray(packed)
        damaged[place] ^= 0x55
        try:
            outcomes.append(read(bytes(damaged), "a.csv.gz").digest)
        except ValueError as error:
            outcomes.append("refused" if "a.csv.gz" in str(error) else error)
    assert set(outcomes) == {good, "refused"}
    assert outcomes.count("refused") > len(packed) / 2


def test_a_table_that_unpacks_to_far_more_than_its_size_is_refused(read, monkeypatch):
    monkeypatch.setattr(unpack, "FLOOR", 10_000)
    bomb = PULSE + "p9,0,1,red,a\n" * 100_000
    with refused("a.csv.gz unpacks to more than .* bytes; if it is right, unpack it by other means"):
        read(gzip.compress(bomb.encode()), "a.csv.gz")
    with refused("repeats the stamp"):  # not packed, it is read
        read(bomb)


def test_huge_cells(read):
    huge = "9" * 200_000
    with refused(r"line 3: column 'pulse' holds '9{20}'\.\.\. \(200,000 characters\), not a finite number"):
        read(PULSE.replace("p0,1,01", f"p0,1,{huge}"))
    with refused("line 6: column 'pulse' holds 'oops'"):  # its line is counted over the huge cell
        read(PULSE.replace("red", huge, 1).replace("p1,0,10", "p1,0,oops"))
    with refused(r"a name in the header has 200,000 characters \('9+'\.\.\.\), .*is a quote left open\?"):
        read(PULSE.replace("pulse", huge))
    for column, before, after in (("second", "p0,2,", f"p0,2{'0' * 400},"), ("pulse", ",02,", f",2{'0' * 400},")):
        with refused(f"line 4: column '{column}' holds '20.*401 characters"):
            read(PULSE.replace(before, after))


def test_a_wide_table(read):
    names = [f"c{number}" for number in range(3000)]  # took 5 s, four times as long for twice as many
    rows = [["a", t, "xy"[t % 2], *range(t, 3000 + t)] for t in range(12)]
    text = "\n".join(",".join(map(str, row)) for row in [["who", "second", "state", *names], *rows])
    data = read(text, kind="step-classification", lookback=3)
    assert data.features == tuple(names)
    assert data.values[5].equal(torch.arange(5.0, 3005.0))


def test_tensors_of_any_kind_are_arrays():
    numbers = torch.arange(12.0).view(2, 3, 2)
    want = from_arrays(numbers, [0, 1]).digest
    for kind in (torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.int32, torch.float64):
        assert from_arrays(numbers.to(kind), [0, 1]).digest == want, kind
        assert from_arrays(list(numbers.to(kind)), [0, 1]).digest == want, kind
    assert from_arrays(numbers.to_sparse(), [0, 1]).digest == want
    with refused("x is a tensor on meta that cannot be read"):
        from_arrays(numbers.to("meta"), [0, 1])


def test_arrays_of_objects():
    ragged = np.empty(2, object)
    ragged[:] = [np.ones((2, 3)), np.zeros((4, 3))]
    assert from_arrays(ragged, np.array(["a", "b"], object)).length.tolist() == [2, 4]
    good = [[1.0, 2.0], [3.0]]
    for x, y, message in (
        (None, [0, 1], "x must be an array, a tensor or a list, got NoneType"),
        ([None, None], [0, 1], "x: item 0 holds None, wanted are numbers or text"),
        ([[1, None], [2]], [0, 1], "x: item 0 holds None"),
        ([[1, 10**30], [2]], [0, 1], "x: item 0 holds an integer beyond 64 bits"),
        ([[[1, 2], [3]], [2]], [0, 1], "x: item 0 is not an array of one shape"),
        (good, None, "y must be an array, a tensor or a list, got NoneType"),
        (good, ["a", None], "y: item 1 holds None"),
        (good, [{}, {}], "y: item 0 holds a dict"),
    ):
        with refused(message):
            from_arrays(x, y)
    with refused("group must be a list of labels, one for each sequence, got 5"):
        from_arrays(good, [0, 1], group=5)
    with refused("features must be 1 different names, .* got 5"):
        from_arrays(good, [0, 1], features=5)
