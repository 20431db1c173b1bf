"""Data sets from your own tables: CSV files and arrays."""
