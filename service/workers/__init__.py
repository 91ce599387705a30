"""Worker processes: they answer searches from the state that the process of the data directory publishes."""
