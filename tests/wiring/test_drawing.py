"""The figure of a wiring shows every neuron and every synapse."""

import matplotlib.colors
import numpy as np
import pytest
from matplotlib.collections import LineCollection, PathCollection

from nacre import Wiring
from nacre.wiring.builders import WiringKind, backbone_wiring, sensory_wiring
from nacre.wiring.drawing import _EXCITATORY, _INHIBITORY


def parts(figure):
    (axes,) = figure.axes
    lines = [c for c in axes.collections if isinstance(c, LineCollection)]
    dots = [c for c in axes.collections if isinstance(c, PathCollection)]
    return axes, lines, dots


@pytest.mark.parametrize(
    ("kind", "build"),
    [*((str(kind), backbone_wiring) for kind in WiringKind), ("ncp", sensory_wiring), ("mlp", sensory_wiring)],
)
def test_every_neuron_and_synapse_is_drawn(kind, build, tmp_path):
    wiring = build(kind, 6, 20, 0.5, 1)
    figure = wiring.draw()
    axes, lines, dots = parts(figure)
    assert sum(len(d.get_offsets()) for d in dots) == wiring.num_inputs + wiring.num_neurons
    colours = np.concatenate([c.get_colors()[:, :3] for c in lines])
    for table_sign, colour in ((1, _EXCITATORY), (-1, _INHIBITORY)):
        wanted = (wiring.adjacency == table_sign).sum() + (wiring.input_adjacency == table_sign).sum()
        assert np.isclose(colours, matplotlib.colors.to_rgb(colour)).all(axis=1).sum() == wanted
    assert sum(len(c.get_paths()) for c in lines) == len(colours)
    assert f"{wiring.num_neurons} neurons" in axes.get_title()
    figure.savefig(tmp_path / "wiring.png")
    assert (tmp_path / "wiring.png").read_bytes().startswith(b"\x89PNG")


def test_layers_stand_in_order_and_synapses_join_their_neurons():
    wiring = Wiring(
        [[0, 1, 0, 0], [0, -1, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0]],
        [[1, 0, 0, 0]],
        ("inter", "command", "motor", "motor"),
    )
    axes, lines, _ = parts(wiring.draw())
    assert [t.get_text() for t in axes.texts[::2]] == ["sensory\n(inputs)", "inter", "command", "motor"]
    ends = {tuple(np.round(p.vertices[[0, -1], 0]).astype(int)) for c in lines for p in c.get_paths()}
    assert ends == {(0, 1), (1, 2), (2, 3), (2, 2)}
    loop = next(p.vertices for c in lines for p in c.get_paths() if np.allclose(p.vertices[0], p.vertices[-1]))
    assert np.ptp(loop[:, 0]) > 0.05  # a synapse onto itself can be seen
