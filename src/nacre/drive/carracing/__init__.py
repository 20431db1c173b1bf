"""CarRacing: an expert, recordings, races, and what a network looks at."""
