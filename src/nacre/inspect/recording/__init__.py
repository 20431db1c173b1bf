"""Recordings of what every neuron did."""
