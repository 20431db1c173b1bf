"""`nacre demo`: models complete irregular spirals, with a report."""
