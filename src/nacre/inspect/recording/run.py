"""`record_run`: a recording of a trained run, on sequences or drives that it was tested on."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from nacre._util.checks import choice, whole
from nacre.data.dataset import Dataset, Kind
from nacre.data.examples import read_examples
from nacre.data.splits import spread
from nacre.inspect.recording.description import Description
from nacre.inspect.recording.hooks import layers_of, watching
from nacre.inspect.recording.layer_writer import OF_CIRCUIT, PAIR_GATES, SENSORY, Detail, LayerWriter
from nacre.inspect.recording.outputs import outputs_of, windows_of
from nacre.inspect.recording.recording import Recording
from nacre.inspect.recording.writer import RecordingWriter
from nacre.layer.attention import NAC
from nacre.layer.trace import Trace, TraceBuilder
from nacre.tasks.metrics import metric_of
from nacre.tasks.network import TaskNetwork
from nacre.tasks.scaling import answer_scale
from nacre.train.run import EXAMPLES_FOLDER, Run

FOLDER = "inspect"  # in the run
AT_ONCE = 32  # moments of a drive


@dataclass(frozen=True)
class Subject:
    """A trained network and the data that it is shown."""

    title: str  # task, model, fold and seed
    network: TaskNetwork
    data: Dataset
    test: Tensor  # [m] sequences that it was tested on
    unit: tuple[float, ...]  # what errors of numbers are measured in

    def about(self, samples: list[str], window: int = 0) -> Description:
        """Description of a recording of it."""
        data, metric = self.data, metric_of(self.data.kind)
        return Description(
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

    def truth(self, y: Tensor) -> np.ndarray:
        """True answers as they are recorded: classes, or numbers. `UNSCORED` or NaN where they are not scored."""
        return y.numpy().astype(np.int64 if self.data.kind.has_classes else np.float32)


def load_subject(run: Path, data_dir: Path | None = None) -> Subject:
    """The network of a run, and its data.

    Raises:
        FileNotFoundError: If there is no such run, or its data is gone.
        ValueError: If it is no run of a network with a NAC layer.
    """
    trained = Run.open(run)
    result = trained.result
    network = trained.network(allow_nonfinite=True)  # whoever inspects it may want to see why
    try:
        layers_of(network)
    except ValueError:
        raise ValueError(
            f"{run} is a run of {result.model}, which has no NAC layer to look into; choose one of "
            "`nacre models nac*`"
        ) from None
    if network.kind is Kind.MULTI_LABEL or network.quantiles:
        what = "labels" if network.kind is Kind.MULTI_LABEL else "quantiles"
        raise ValueError(f"{run} answers {what}, which `nacre inspect` cannot show; choose a run of another kind")
    title = f"{result.task}, {result.model}, fold {result.fold}, seed {result.seed}"
    kept = read_examples(trained.directory / EXAMPLES_FOLDER)
    if kept is not None:  # what an estimator saved
        index = torch.arange(len(kept))
        unit = () if kept.kind.has_classes else tuple(answer_scale(kept, index)[1].tolist())
        return Subject(f"{result.task}, {result.model}, seed {result.seed}", network, kept, index, unit)
    if result.final:
        why = (
            "holds no examples to look at; save it with examples=True"
            if "estimator" in result.record
            else "was trained on all data, and has no test part; choose the run of a fold"
        )
        raise ValueError(f"{run} {why}")
    task = trained.task(data_dir)
    data, split = task.data, task.splits[result.fold]
    unit = ()
    if not data.kind.has_classes:
        unit = tuple(answer_scale(data, torch.cat([split.train, split.valid]).sort().values)[1].tolist())
    return Subject(title, network, data, split.test, unit)


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
        samples: How many at most: sequences spread evenly over the test part, or its first drives.
        out: Where the recording goes; None for `inspect` in the run.
        data_dir: Where data files are; None for $NACRE_DATA, then the cache.
        detail: What is kept of the neurons, as in `record`.
        progress: Called with how many sequences or moments are done, and how many there are.
    """
    whole("samples", samples, 1)
    choice("detail", detail, Detail)
    run = Path(run)
    subject = load_subject(run, data_dir)
    out = run / FOLDER if out is None else out
    tell = progress or (lambda done, of: None)
    if subject.network.frames:
        _record_drives(subject, samples, out, Detail(detail), tell)
    else:
        _record_sequences(subject, spread(subject.test, samples), out, Detail(detail), tell)
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
                    layers[name] = LayerWriter(writer.new_layer(name), layer, "float32", detail, len(index))
                layers[name].first = sample
                return layers[name]

            batch = data.batch(index[sample : sample + 1])
            with watching(network, observer):
                y = outputs_of(network, batch.x, batch.time, None, batch.query_only)
            writer.put_inputs(sample, batch.x[0], batch.time[0], longest)
            if batch.query_only is not None:
                writer.put("query_only", sample, 0, batch.query_only[0].numpy(), longest)
            steps = max(curve) if done else y.curve.shape[1]
            curve[sample] = y.curve.shape[1]
            writer.put("output", sample, 0, y.curve[0].float().numpy(), steps)
            if y.answer is not None:
                writer.put("answer", sample, 0, y.answer.float().numpy(), 1)
            true, steps = (batch.y[0], longest) if data.kind.each_step else (batch.y, 1)
            writer.put("truth", sample, 0, subject.truth(true), steps)
            tell(done + 1, len(index))
        for layer in layers.values():
            layer.finish()
        names = [f"{data.groups[g]}, sequence {i}" for g, i in zip(data.group[index], index.tolist(), strict=True)]
        writer.finish(subject.about(names), {"x": lengths, "output": curve})


def _record_drives(
    subject: Subject, samples: int, out: Path, detail: Detail, tell: Callable[[int, int], None]
) -> None:
    """Record drives of the test part. The network sees the last frames at each moment."""
    data, network = subject.data, subject.network
    drives = data.group[subject.test].unique()[:samples].tolist()
    moments = [(data.group == drive).nonzero().squeeze(1) for drive in drives]
    lengths = [len(index) for index in moments]
    longest, window = max(lengths), int(data.length.max())
    layers: dict[str, LayerWriter] = {}
    done = 0
    with RecordingWriter(out, len(drives), network) as writer:
        for sample, index in enumerate(moments):
            rows = data.start[index] + data.length[index] - 1  # the last frame of each
            frames, time = data.values[rows], data.time[rows]
            writer.put_inputs(sample, frames, time, longest)
            writer.put("truth", sample, 0, subject.truth(data.y[index]), longest)
            for first in range(0, len(index), AT_ONCE):
                stop = min(first + AT_ONCE, len(index))
                x, stamps, padding, start = windows_of(frames, time, first, stop, window)
                with watching(network, lambda name, layer: TraceBuilder()) as seen:
                    y = outputs_of(network, x, stamps, padding)
                assert y.answer is not None
                writer.put("output", sample, first, y.answer.float().numpy(), longest)
                for name, builder in seen.items():
                    if name not in layers:
                        layer = network.get_submodule(name)
                        assert isinstance(layer, NAC)
                        layers[name] = LayerWriter(writer.new_layer(name), layer, "float32", detail, len(drives))
                        layers[name].describe(longest, window)
                    part = _last(builder.trace(), padding, start)
                    part["time"] = time[first:stop] - time[0]
                    layers[name].put(sample, first, part)
                    layers[name].put_sensory(sample, first, part)
                done += stop - first
                tell(done, sum(lengths))
        for layer in layers.values():
            layer.finish()
        about = subject.about([data.groups[drive] for drive in drives], window)
        writer.finish(about, {"x": lengths, "output": lengths})


def _last(trace: Trace, padding: Tensor, start: Tensor) -> dict[str, Tensor]:
    """What happened at the last frame of each window [n, H, ...]; keys are numbered by the frames of the drive."""
    last = (~padding).sum(1) - 1  # [n]
    row = torch.arange(len(last))
    names = [*PAIR_GATES, *OF_CIRCUIT, *SENSORY, "index", "valid"]
    part = {name: x[row, :, last] for name in names if (x := getattr(trace, name)) is not None}
    part["index"] = (part["index"] + start.view(-1, 1, 1)).masked_fill(~part["valid"], 0)
    return part
