"""The server that Udacity's simulator connects to."""
