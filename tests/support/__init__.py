"""What several tests share: made-up data, runs, recordings and servers."""
