"""Estimators for people who think in arrays and frames: `Classifier`, `Regressor`, `Forecaster`."""
