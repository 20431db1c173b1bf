"""Figures of recordings."""
