"""Trivial controls, which every table of results shows beside the networks."""
