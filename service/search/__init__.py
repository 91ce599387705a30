"""Search: from query text to hits."""
