"""Recordings made by hand, in which a test decides what the neurons do."""

import numpy as np
import torch

from nacre import NAC
from nacre.inspect import Recording
from nacre.inspect.recording.arrays import new_array
from nacre.inspect.recording.description import Description
from nacre.inspect.recording.layer_writer import Detail, LayerWriter
from nacre.inspect.recording.writer import RecordingWriter

LAYER = NAC(4, 2, wiring="random", backbone_units=6)
WIDTH = 2  # of a head
NEURONS = 3 * WIDTH + LAYER.backbone.wiring.num_neurons
GATES = ("phi", "omega", "t", "logits", "keys")


def write(path, states, answers, *, gates=None, truth=None, inputs=None, start=0.0, stamps=None, **about):
    """A recording of two heads.

    Args:
        path: Where it goes.
        states: For each sample [T, 2, NEURONS].
        answers: For each sample [T or 1, O] what the model said.
        gates: For each sample [T, 2, 5]; ones if not given.
        truth: For each sample [T or 1, ...].
        inputs: Steps of the input of each sample; as many as the layer has if not given.
        start: First stamp of the input; it counts steps.
        stamps: For each sample [T] stamps of the layer, if it has any.
        about: What `Description` says.
    """
    lengths, samples = [len(x) for x in states], len(states)
    inputs = inputs or lengths
    about = {"outputs": tuple(f"y{i}" for i in range(answers[0].shape[1])), **about}
    with RecordingWriter(path, samples, LAYER) as writer:
        group = writer.new_layer("layer")
        described = LayerWriter(group, LAYER, "float32", Detail.MEANS, samples)
        described.describe(max(lengths), 8)
        assert tuple(described.gate_names) == GATES
        group.attrs["length"] = lengths
        gates = gates or [np.ones((length, 2, len(GATES))) for length in lengths]
        arrays = {"states": states, "gates": gates} | ({} if stamps is None else {"time": stamps})
        for name, rows in arrays.items():
            dtype = "float64" if name == "time" else "float32"
            array = new_array(group, name, (samples, max(lengths), *rows[0].shape[1:]), dtype)
            for i, values in enumerate(rows):
                array[i, : len(values)] = values
        for i in range(samples):
            time = start + torch.arange(inputs[i], dtype=torch.float64)
            writer.put_inputs(i, torch.zeros(inputs[i], 1), time, max(inputs))
            said = "answer" if about.get("once") else "output"
            writer.put(said, i, 0, answers[i].astype(np.float32), max(map(len, answers)))
            if truth is not None:
                writer.put("truth", i, 0, truth[i], max(map(len, truth)))
        lengths_of = {"x": inputs} | ({} if about.get("once") else {"output": [len(a) for a in answers]})
        names = tuple(f"sample {i}" for i in range(samples))
        writer.finish(Description(name="by hand", samples=names, **about), lengths_of)
    return Recording(path)


NAC_LAYER = "layer.blocks.0.attention"  # of a task network


def layer_call(network, x, time, padding, base=None, query_only=None):
    """The NAC layer of a task network, and what it is called with when the network reads these tokens."""
    stack = network.layer
    block = stack.blocks[0]
    x = block.attention_norm(stack.embed(x.masked_fill(padding.unsqueeze(-1), 0)))
    return block.attention, {"query": x, "time": time, "key_padding_mask": padding, "query_only": query_only}


def slow(random, steps, columns, memory=0.95):
    """Noise [steps, columns] that forgets slowly, as states of neurons do."""
    x = np.empty((steps, columns))
    x[0] = random.normal(size=columns)
    for i in range(1, steps):
        x[i] = memory * x[i - 1] + np.sqrt(1 - memory**2) * random.normal(size=columns)
    return x


def slow_labels(random, steps, labels=3):
    """Classes [steps] that stay for a while."""
    return slow(random, steps, labels).argmax(1)
