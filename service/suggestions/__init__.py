"""Suggestions: completions of a query that is being typed, from the log."""
