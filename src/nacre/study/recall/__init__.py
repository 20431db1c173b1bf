"""Can a model find one item among many, by its key or by its time?"""
