"""Results of runs: reading them, statistics, tables and figures."""
