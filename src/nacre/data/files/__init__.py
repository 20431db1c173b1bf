"""Files of data sets: the catalogue, fetching, checksums, cached arrays."""
