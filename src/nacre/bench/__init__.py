"""`nacre bench`: time and memory of every model, measured in processes of their own."""
