"""Analyses of recordings: tuning, gates, lesions, dead neurons."""
