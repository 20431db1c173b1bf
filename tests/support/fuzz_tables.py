"""Seeded odd tables and recipes: what strangers may have on their disks."""

import gzip
import random

_NUMBERS = [
    "-1e400",
    "1e39",
    "1e-400",
    "1.5.2",
    "1,5",
    "0x1F",
    "1_000",
    "-0",
    "-9223372036854775809",
    "\uff11\uff12",
    "inf",
    "nan",
]
_DATES = ["12:30", "2020-01-01", "2020-13-45", "01.02.2020"]
_TEXTS = [
    "",
    " ",
    "x",
    "NA",
    "None",
    "true",
    '"',
    "'",
    "a;b",
    "a\tb",
    "é",
    "日本",
    "\x00",
    "\u202e",
    "=1+1",
    "#",
    "(column 1)",
]
CELLS = [*_NUMBERS, *_DATES, *_TEXTS, "9" * 19, "9" * 400, "x" * 5000]
_PLAIN = [
    "0",
    "-1",
    "1",
    "2.5",
    "1e400",
    "1e-320",
    "nan",
    "-inf",
    "true",
    "[]",
    "[[]]",
    "{}",
    "0x10",
    "9223372036854775807",
    "2020-01-01",
    "12:30:00",
]
_NAMES = [
    "",
    "x",
    "second",
    "state",
    "pulse",
    "keep",
    "mean",
    ",",
    "forecasting",
    "step-regression",
    "classification",
]
_LISTS = ["{ a = 1 }", '["pulse"]', '["pulse", "tag"]', '["tag"]', '["a", 1]', "[1, 2]", "[[4, 3, 1]]"]
_LARGE = [
    "9" * 30,
    "9" * 400,
    "9" * 5000,
    f'"{"a" * 3000}"',
    "[" * 2000 + "]" * 2000,
    '"\\u0000"',
    "1979-05-27T07:32:00Z",
]
VALUES = [*_PLAIN, *(f'"{name}"' for name in _NAMES), *_LISTS, *_LARGE]
KEYS = {
    "data": "csv name time target group kind features lookback horizon sort duplicates decimal categories odd",
    "split": "by folds test_share nonsense",
    "network": "d_model num_heads conv dense dropout time_scale block depth relative linear image",
    "training": "optimizer lr weight_decay batch_size clip schedule warmup epochs augment",
    "models.nac": "top_k sparsity mode seed wiring settle_steps nonsense",
    "standard.network": "d_model dense nonsense",
}
BASE = {
    "data": {"csv": '"my.csv"', "time": '"second"', "target": '"state"', "group": '"who"'},
    "network": {"d_model": "8", "num_heads": "2"},
}


class Stranger:
    """One odd table, `my.csv` or `my.csv.gz`, and one odd recipe, `my.toml`, from a seed."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def write(self, folder):
        """Write both; gives what was written, for messages."""
        chance = self.random.random
        sections = {name: dict(table) for name, table in BASE.items()}
        if chance() < 0.3:
            sections["data"] |= {"target": '"pulse"', "lookback": "2", "horizon": "1"}
        if chance() < 0.5:
            for _ in range(self.random.choice([1, 1, 2, 5])):
                self._change(sections)
        packed = chance() < 0.2
        if packed:
            sections.get("data", {})["csv"] = '"my.csv.gz"'
        text = "".join(
            f"[{name}]\n" + "".join(f"{key} = {value}\n" for key, value in table.items())
            for name, table in sections.items()
        )
        recipe = self._bytes(text.encode()) if chance() < 0.1 else text.encode()
        table = self._table()
        (folder / "my.toml").write_bytes(recipe)
        (folder / ("my.csv.gz" if packed else "my.csv")).write_bytes(self._packed(table) if packed else table)
        return f"{recipe[:1500]!r}\n{table[:1500]!r}"

    def _change(self, sections):
        name = self.random.choice(list(KEYS))
        if self.random.random() < 0.1 and name in sections:
            del sections[name]
        else:
            sections.setdefault(name, {})[self.random.choice(KEYS[name].split())] = self.random.choice(VALUES)

    def _table(self):
        pick, chance = self.random.choice, self.random.random
        rows = [["who", "second", "pulse", "tag", "state"]]
        for who in range(pick([1, 2, 6, 6, 6, 6, 6, 6])):
            rows += [[f"p{who}", str(t), f"{who}.{t}", pick(["red", "blue"]), "ab"[who % 2]] for t in range(5)]
        for _ in range(pick([0, 0, 0, 1, 9])):
            row = pick(rows)
            if row:
                row[self.random.randrange(len(row))] = pick(CELLS)
        if chance() < 0.1:
            column, cell = self.random.randrange(5), pick(CELLS)
            for row in rows[1:]:
                row[column] = cell
        if chance() < 0.1:
            pick(rows).append(pick(CELLS))
        if chance() < 0.1:
            pick(rows).pop()
        if chance() < 0.1:
            self.random.shuffle(rows)
        lines = pick([","] * 6 + [";", "\t"]).join
        text = pick(["\n"] * 6 + ["\r\n", "\r", "\n\n"]).join(lines(row) for row in rows)
        if chance() < 0.1:
            text = pick(["sep=;\n", "sep=,\r\n", "\ufeff", "# made by hand\n", "\n\n", "sep=\n"]) + text
        data = text.encode(pick(["utf-8"] * 20 + ["utf-16"]))
        return self._bytes(data) if chance() < 0.1 else data

    def _packed(self, data):
        packed = gzip.compress(data)
        return self._bytes(packed) if self.random.random() < 0.5 else packed

    def _bytes(self, data):
        """The same with some bytes changed, or cut off."""
        changed = bytearray(data)
        for _ in range(self.random.choice([1, 3, 20])):
            if changed:
                changed[self.random.randrange(len(changed))] = self.random.choice([0, 10, 34, 44, 59, 255, 0xED])
        cut = self.random.randrange(len(changed) + 1) if self.random.random() < 0.3 else len(changed)
        return bytes(changed[:cut])
