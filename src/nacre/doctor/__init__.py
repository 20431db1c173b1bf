"""What `nacre doctor` does: look at the machine, the kernels and the data, and say what to mend."""
