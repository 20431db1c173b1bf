"""Tuning: a search for better recipes, which never looks at the test part. Needs optuna."""
