"""Filters: parsing of filter texts, the tree of conditions, and its evaluation."""
