"""Grids on a Ray cluster, and cells trained by several processes."""
