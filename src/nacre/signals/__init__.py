"""Vibration signals: wavelets and the features of windows."""
