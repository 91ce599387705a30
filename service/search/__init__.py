"""Search: the path of a query, from text to hits."""
