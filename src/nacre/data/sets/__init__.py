"""The data sets that nacre comes with, one file each."""
