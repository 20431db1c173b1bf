"""Bearings: vibration recordings, their features, and what is left of a life."""
