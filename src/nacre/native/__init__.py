"""Compiled kernels: C++ source, built on first use, and called through `ctypes`."""
