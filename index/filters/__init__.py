"""Filters: the text of a filter, its tree of conditions, and what a condition means."""
