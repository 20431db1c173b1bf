"""`record_run`: a recording of a trained run, on sequences or drives that it was tested on."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from nacre._util.checks import choice, whole
from nacre.data.dataset import Dataset
from nacre.inspect.recording.description import About
from nacre.inspect.recording.drive import record_drives
from nacre.inspect.recording.hooks import layers_of, watching
from nacre.inspect.recording.layer_writer import Detail, LayerWriter
from nacre.inspect.recording.outputs import outputs_of
from nacre.inspect.recording.record import new_group, write_sample
from nacre.inspect.recording.recording import Recording
from nacre.inspect.recording.writer import RecordingWriter
from nacre.io import load
from nacre.layer.attention import NAC
from nacre.tasks.metrics import metric_of
from nacre.tasks.network import TaskNetwork, answer_scale
from nacre.tasks.recipe import load_recipe
from nacre.tasks.task import load_task

FOLDER = "inspect"  # in the run


@dataclass(frozen=True)
class Subject:
    """A trained network and what it is shown.

    Attributes:
        title: Task, model, fold and seed.
        network: The network.
        data: The data set.
        test: [m] sequences that it was tested on.
        unit: What errors of numbers are measured in.
    """

    title: str
    network: TaskNetwork
    data: Dataset
    test: Tensor
    unit: tuple[float, ...]

    def about(self, samples: list[str], window: int = 0) -> About:
        """What a recording of it says of itself."""
        data, metric = self.data, metric_of(self.data.kind)
        return About(
            name=self.title,
            samples=tuple(samples),
            features=data.features,
            outputs=data.classes or data.targets,
            classes=data.kind.has_classes,
            once=not data.kind.each_step and not window,
            window=window,
            time_unit=data.time_unit,
            metric=metric.name,
            better="higher" if metric.higher_is_better else "lower",
            unit=self.unit,
        )


def load_subject(run: Path, data_dir: Path | None = None) -> Subject:
    """The network of a run, and its data.

    Raises:
        FileNotFoundError: If there is no such run, or its data is gone.
        ValueError: If it is no run of a network with a NAC layer.
    """
    try:
        result = json.loads((run / "result.json").read_bytes())
        model, fold, seed, task_name = result["model"], result["fold"], result["seed"], result["task"]
    except FileNotFoundError:
        raise FileNotFoundError(
            f"{run} is no finished run and no recording; give a directory such as runs/spiral/nac/fold0-seed0"
        ) from None
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{run / 'result.json'} is damaged; train {run} again") from None
    if not (run / "model").is_dir():
        raise ValueError(f"{run} holds no network; controls have no neurons, choose the run of a NAC model")
    network = load(run / "model")
    if not isinstance(network, TaskNetwork):
        raise ValueError(f"{run} holds a {type(network).__name__}, wanted a network that `nacre train` made")
    layers_of(network)
    task = load_task(load_recipe(run / "recipe.toml"), data_dir)
    data, split = task.data, task.splits[fold]
    unit: tuple[float, ...] = ()
    if not data.kind.has_classes:
        unit = tuple(answer_scale(data, torch.cat([split.train, split.valid]).sort().values)[1].tolist())
    return Subject(f"{task_name}, {model}, fold {fold}, seed {seed}", network.eval(), data, split.test, unit)


def record_run(
    run: str | Path,
    samples: int = 8,
    *,
    out: Path | None = None,
    data_dir: Path | None = None,
    detail: str = "means",
    progress: Callable[[int, int], None] | None = None,
) -> Recording:
    """Show a trained network sequences that it was tested on, and record what every neuron does.

    A network for frames is shown whole drives, frame by frame, each with the frames before it.

    Args:
        run: Directory of a run.
        samples: How many sequences or drives, at most: the first ones of the test part.
        out: Where the recording goes; None for `inspect` in the run.
        data_dir: Where data files lie; None for $NACRE_DATA, then the cache.
        detail: What is kept of the neurons, as in `record`.
        progress: Called with how much of how much is done.

    Returns:
        The recording.
    """
    whole("samples", samples, 1)
    choice("detail", detail, Detail)
    run = Path(run)
    subject = load_subject(run, data_dir)
    out = run / FOLDER if out is None else out
    tell = progress or (lambda done, of: None)
    if subject.network.frames:
        record_drives(subject, samples, out, Detail(detail), tell)
    else:
        _record_sequences(subject, subject.test[:samples], out, Detail(detail), tell)
    return Recording(out)


def _record_sequences(
    subject: Subject, index: Tensor, out: Path, detail: Detail, tell: Callable[[int, int], None]
) -> None:
    data, network = subject.data, subject.network
    lengths = data.length[index].tolist()
    longest = max(lengths)
    layers: dict[str, LayerWriter] = {}
    curve = [0] * len(index)
    with RecordingWriter(out, len(index), network) as writer:
        # The longest first: it says how many steps the arrays of a layer have.
        for done, sample in enumerate(sorted(range(len(index)), key=lambda i: -lengths[i])):

            def observer(name: str, layer: NAC, sample: int = sample) -> LayerWriter:
                if name not in layers:
                    layers[name] = LayerWriter(new_group(writer, name), layer, "float32", detail, len(index))
                layers[name].first = sample
                return layers[name]

            batch = data.batch(index[sample : sample + 1])
            with watching(network, observer):
                y = outputs_of(network, batch.x, batch.time, None)
            write_sample(writer, sample, batch.x[0], batch.time[0], longest)
            steps = max(curve) if done else y.curve.shape[1]
            curve[sample] = y.curve.shape[1]
            writer.put("output", sample, 0, y.curve[0].float().numpy(), steps)
            if y.answer is not None:
                writer.put("answer", sample, 0, y.answer.float().numpy(), 1)
            truth = _truth(data, batch.y[0])
            writer.put("truth", sample, 0, truth, longest if data.kind.each_step else 1)
            tell(done + 1, len(index))
        for layer in layers.values():
            layer.finish()
        names = [f"{data.groups[g]}, sequence {i}" for g, i in zip(data.group[index], index.tolist(), strict=True)]
        writer.finish(subject.about(names), {"x": lengths, "output": curve})


def _truth(data: Dataset, y: Tensor) -> np.ndarray:
    """True answers [T or 1, ...]: classes, `UNSCORED` if not scored, or numbers, NaN if not scored."""
    values = y.numpy() if data.kind.each_step else y.unsqueeze(0).numpy()
    return values.astype(np.int64 if data.kind.has_classes else np.float32)
