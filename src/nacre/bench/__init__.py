"""Speed beside other attention, measured in one run."""
