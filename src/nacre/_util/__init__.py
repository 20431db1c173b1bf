"""Helpers without words of our field: checks, files, locks, progress, processes, plotting."""
