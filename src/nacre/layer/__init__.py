"""The NAC layer, from options to attended values."""
