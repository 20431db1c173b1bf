"""Recordings of bearings on three test rigs: their files, labels and scores."""
