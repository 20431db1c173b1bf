"""What do heads, sparsity and the number of keys do on irregular spirals?"""
