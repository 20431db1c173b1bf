"""The tables of the documentation: a module for each page, with its `TABLES` and, where it has any, `FIGURES`."""
