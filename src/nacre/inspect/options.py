"""Names that the command line offers and `nacre.inspect` uses; apart, because `nacre.inspect` takes its time."""

from enum import StrEnum


class FigureKind(StrEnum):
    """What a figure shows."""

    CIRCUIT = "circuit"
    """The circuit of a head, with its strongest synapses and the states of its neurons at a step."""
    ACTIVITY = "activity"
    """All groups of neurons of a head over time, from the input to the answer."""
    GATES = "gates"
    """Gates and logits of all heads over time."""
    ATTENTION = "attention"
    """Which keys each step of a head attends to."""
    TUNING = "tuning"
    """How much each neuron tells of the answer, beside what chance gives."""
    LESION = "lesion"
    """What becomes of the answer when neurons are silent."""


class What(StrEnum):
    """Whose answers neurons are held against."""

    TRUTH = "truth"  # the right ones
    ANSWER = "answer"  # those that the model gave
