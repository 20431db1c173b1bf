"""Whatever tables and recipes hold, commands end with 0 or 2; readers raise ValueError or OSError."""

import pytest

from nacre.data import from_csv
from nacre.tasks.recipe import load_recipe
from support.fuzz_tables import Stranger
from support.hypothesis import DEEP
from support.train import nacre

SEEDS = 5000 if DEEP else 300
PARTS = 3


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_odd_tables_and_recipes(tmp_path, monkeypatch, capsys, part):
    monkeypatch.chdir(tmp_path)
    codes = []
    for seed in range(part, SEEDS, PARTS):
        (tmp_path / "my.csv").unlink(missing_ok=True)
        made = Stranger(seed).write(tmp_path)
        try:
            codes.append(nacre(monkeypatch, "data", "check", "my.toml"))
        except BaseException as error:
            raise AssertionError(f"seed {seed}: {error!r}\n{made}") from error
        said = capsys.readouterr()
        assert codes[-1] in (0, 2), f"seed {seed}: {made}"
        assert (said.err != "") == (codes[-1] == 2), f"seed {seed}: {said.err}"
        assert "Traceback" not in said.err
        try:
            load_recipe("my.toml")
            from_csv("my.csv", time="second", target="state", group="who")
        except (ValueError, OSError):
            pass
        except BaseException as error:
            raise AssertionError(f"seed {seed}: {error!r}\n{made}") from error
    assert {0, 2} <= set(codes)  # good ones and bad ones
