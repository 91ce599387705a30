"""Training runs: a child process fits, a gate decides."""
