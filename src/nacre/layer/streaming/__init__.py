"""Causal layers step by step: the state of a stream, checks of a step, and its plan for the kernel."""
