"""Small recordings and studies to draw, and what is asked of every figure."""

from types import SimpleNamespace

import numpy as np
import torch
import zarr
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from nacre import NAC
from nacre.data.dataset import Kind
from nacre.inspect import Lesion, Recording, record
from nacre.inspect.recording.writer import STORE
from nacre.tasks.network import TaskNetwork


class Own(torch.nn.Module):
    """A model that nacre cannot save."""

    def __init__(self, outputs=4):
        super().__init__()
        self.layer = NAC(24, 3, d_input=3, share_backbone=True)
        self.head = torch.nn.Linear(24, outputs)

    def forward(self, x, time):
        return self.head(self.layer(x, time=time))


def recorded(kind, out):
    """A recording of a kind."""
    torch.manual_seed(0)

    def walk(*shape):
        return torch.randn(*shape).cumsum(1) / 3

    def stamps(samples, steps):
        return torch.rand(samples, steps).cumsum(1)

    match kind:
        case "plain":
            return record(NAC(24, 3, d_input=3), walk(2, 50, 3), stamps(2, 50), out=out)
        case "steady":  # no time gate, no stamps, one head
            layer = NAC(12, 1, d_input=2, mode="steady", integrate=False, match="both")
            return record(layer, walk(1, 30, 2), out=out)
        case "clock":
            options = {"clock": 6, "match": "start", "near": 6, "phi": "linear", "sensory_activation": "identity"}
            layer = NAC(16, 2, d_input=3, backbone_units=22, time_scale=0.5, **options)
            record(layer, walk(2, 60, 3), stamps(2, 60), out=out)
            return edited(out, {}, time_unit="hours")
        case "one":
            return record(NAC(12, 1, d_input=2), walk(1, 1, 2), out=out)
        case "many":  # heads, features, outputs and neurons
            return record(NAC(64, 8, d_input=9, causal=True), walk(1, 40, 9), stamps(1, 40), out=out)
        case "long":
            return record(NAC(8, 2, d_input=2, causal=True), walk(1, 9000, 2), out=out, detail="means")
        case "padded":
            padding = torch.arange(40) >= torch.tensor([[40], [25]])
            return record(NAC(12, 2, d_input=2), walk(2, 40, 2), None, padding, out=out)
        case "strided":  # fewer tokens than steps, and no command neurons
            options = {"wiring": "mlp"}
            network = TaskNetwork(
                "nac", Kind.CLASSIFICATION, 2, 3, d_model=8, num_heads=2, conv=[(6, 3, 2)], options=options
            )
            return record(network, walk(1, 40, 2), 5 + stamps(1, 40), out=out)
        case "own":
            return record(Own(), walk(1, 60, 3), stamps(1, 60), out=out)
        case "classes":
            record(Own(), walk(1, 60, 3), stamps(1, 60), out=out)
            names = ["lying down on the left side of the body", "walking", "sitting", "falling"]
            return edited(
                out, {"truth": np.arange(60)[None] % 5 - 1}, classes=True, outputs=names, time_unit="hours"
            )
        case "once":
            record(Own(), walk(1, 60, 3), stamps(1, 60), out=out)
            arrays = {"answer": np.float32([[[0, 3, 1, 2]]]), "truth": np.array([[2]])}
            return edited(out, arrays, classes=True, once=True)
        case "once numbers":
            record(Own(), walk(1, 60, 3), stamps(1, 60), out=out)
            arrays = {"answer": np.float32([[[0, 3, 1, 2]]]), "truth": np.float32([[[0, 2, 1, 2]]])}
            return edited(out, arrays, once=True)
        case "forecast":
            record(Own(outputs=12), walk(1, 60, 3), stamps(1, 60), out=out)
            row = np.arange(12, dtype=np.float32)[None, None]
            return edited(out, {"answer": row, "truth": row + 1}, once=True)
        case "drive":
            record(NAC(16, 2, d_input=4, causal=True, reach=4, top_k=4), walk(1, 64, 4), stamps(1, 64), out=out)
            frames = torch.randint(0, 256, (1, 64, 8, 8, 3)).numpy().astype(np.uint8)
            index = np.arange(64)[None, :, None, None] - np.arange(4)
            layer = {
                "index": np.broadcast_to(index.clip(min=0), (1, 64, 2, 4)),
                "valid": (index >= 0) | np.zeros((1, 64, 2, 4), bool),
            }
            edited(out, {f"layers/0-nac/{name}": np.ascontiguousarray(x) for name, x in layer.items()})
            return edited(out, {"x": frames}, window=4, time_unit="seconds")
        case "asked":
            x = walk(1, 50, 3)
            x[..., 2] = torch.arange(50) % 2
            x[:, ::2] = 0
            record(Own(outputs=2), x, stamps(1, 50), out=out)
            truth = np.where(np.arange(50)[None, :, None] % 2, np.nan, np.float32(0.5)) + np.zeros(
                (1, 50, 2), np.float32
            )
            return edited(out, {"truth": truth.astype(np.float32)}, features=["x", "y", "seen"])
    raise ValueError(kind)


def edited(out, arrays, **about):
    """A recording with other arrays, and another description."""
    root = zarr.open_group(out / STORE, mode="r+")
    for name, values in arrays.items():
        if name in root:
            del root[name]
        root.create_array(name, data=values)
    root.attrs["about"] = {**root.attrs["about"], **about}
    return Recording(out)


def tuned(heads=2, labels=("left", "right", "straight on"), **changes):
    """What a tuning looks like."""
    rng = np.random.default_rng(0)
    groups = {"query": 4, "key": 4, "value": 4, "inter": 10, "command": 6, "motor": 2}
    columns = (*(f"{g} {i}" for g, n in groups.items() for i in range(n)), "phi", "omega", "t", "logits", "keys")
    shape = (heads, len(columns))
    fields = {
        "layer": "layer",
        "what": "truth",
        "names": tuple(labels),
        "columns": columns,
        "information": rng.random(shape),
        "null": np.full(shape, 0.1),
        "f": rng.random(shape),
        "p": rng.random(shape),
        "threshold": 0.6,
        "means": rng.normal(size=(*shape, len(labels))),
        "counts": np.arange(len(labels)) + 1,
        "steps": 1000,
        "permutations": 199,
    }
    return SimpleNamespace(**{**fields, **changes})


def timed(heads=2, clock=6, command=6, unit="hours", reach=3.0, **changes):
    """What a time tuning looks like."""
    rng = np.random.default_rng(2)
    groups = {"clock": 2 * clock, "inter": 8, "command": command, "motor": 2}
    columns = (*(f"{g} {i}" for g, n in groups.items() for i in range(n)), "phi", "omega", "logits")
    shape, bins = (heads, len(columns)), 21
    strength, z = rng.random(shape), 6 * rng.random(shape)
    fields = {
        "layer": "layer",
        "unit": unit,
        "columns": columns,
        "clock_scales": tuple(4.0**i for i in range(clock)),
        "elapsed": np.linspace(-1, 1, bins) * np.geomspace(1, reach, bins),
        "counts": np.full((heads, bins), 40),
        "strength": strength,
        "null": 0.1 * strength,
        "z": z,
        "above": z > 3.1,
        "p": rng.random(shape),
        "silent": strength / 2 if clock else None,
        "threshold": 3.1,
        "means": rng.normal(size=(*shape, bins)).cumsum(-1) / 5,
        "spread": rng.random((*shape, bins)) / 5,
        "pairs": 1680,
        "permutations": 199,
    }
    return SimpleNamespace(**{**fields, **changes})


def lesions(heads=3, metric="accuracy", better="higher"):
    """What a study of lesions looks like."""
    rng = np.random.default_rng(1)
    groups = {"query": 4, "key": 4, "value": 4, "inter": 10, "command": 6, "motor": 2}
    every = [Lesion(g) for g in groups]
    every += [Lesion(g, head=h) for g in groups for h in range(heads)]
    every += [Lesion(g, i, head=h) for g, n in groups.items() for i in range(n) for h in range(heads)]
    every += [Lesion("inter", 0, head=0, target=("command", 1))]
    intact = 0.8 if metric else float("nan")
    rows = [
        SimpleNamespace(lesion=one, change=float(c), metric=intact - float(d), difference=-float(d))
        for one, c, d in zip(every, rng.random(len(every)), rng.normal(size=len(every)) / 10, strict=True)
    ]
    return SimpleNamespace(metric=metric, better=better, intact=intact, rows=tuple(rows))


def texts_of(figure, monkeypatch):
    """All texts that are drawn, after the figure was laid out."""
    seen, draw = [], Text.draw

    def watched(self, renderer, *more, **options):
        if self.get_visible() and self.get_text().strip():
            seen.append(self)
        return draw(self, renderer, *more, **options)

    monkeypatch.setattr(Text, "draw", watched)
    FigureCanvasAgg(figure).draw()
    monkeypatch.setattr(Text, "draw", draw)
    return list(dict.fromkeys(seen))


def assert_readable(figure, monkeypatch):
    """No text is small, cut off, or on top of another one."""
    texts = texts_of(figure, monkeypatch)
    assert min(text.get_fontsize() for text in texts) >= 9
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts]
    width, height = figure.bbox.size
    for name, box in boxes:
        assert box.x0 > -1, name
        assert box.y0 > -1, name
        assert box.x1 < width + 1, name
        assert box.y1 < height + 1, name
    for i, (name, box) in enumerate(boxes):
        for other, over in boxes[i + 1 :]:
            apart = box.padded(-1).overlaps(over.padded(-1))
            assert not apart, f"{name!r} lies on {other!r}"


def drawn(figure, kind):
    return [artist for ax in figure.axes for artist in ax.collections if isinstance(artist, kind)]


def panel(figure, name):
    """The panel with this name to its left."""
    (found,) = (ax for ax in figure.axes if ax.get_ylabel().split("\n")[0] == name)
    return found


def line(ax, label):
    (found,) = (one for one in ax.lines if one.get_label() == label)
    return found
