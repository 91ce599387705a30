"""Training runs: a process fits a head, and a gate decides whether the head is promoted."""
