"""Export of all content as lines of JSON, and its import into another data directory."""
