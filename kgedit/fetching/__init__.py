"""What is fetched over the network, each into a file that load-dump reads: slices, items, dumps."""
