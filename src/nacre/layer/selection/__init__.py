"""Which keys a query attends to: the best matches, by blocks or among all, and the nearest in time."""
