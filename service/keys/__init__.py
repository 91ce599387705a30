"""API keys: made, listed, rotated and deleted."""
