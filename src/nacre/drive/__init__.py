"""Driving: an expert, recordings, closed-loop races, and what a network looks at."""
