"""Options of the command line, apart from the modules that use them, which take long to import."""

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
    """Information of each neuron on the answer, beside chance."""
    TIME_TUNING = "time-tuning"
    """What the circuit's neurons and gates do over the time from key to query, beside chance."""
    LESION = "lesion"
    """How the answer changes when neurons are silent."""


class What(StrEnum):
    """Whose answers are the labels that neurons are compared with."""

    TRUTH = "truth"  # the right ones
    ANSWER = "answer"  # those that the model gave
