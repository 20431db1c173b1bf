"""Training: from a task and a model to a result file that says where it comes from."""
