"""Tasks: a data set, what is asked of it, and the trivial controls that every table shows."""
