"""Runtime: what is open while the service runs, shared by all slices."""
