"""Wirings: groups of neurons and the synapses between them."""
