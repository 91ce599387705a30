"""Ranking: candidates of a query, one attention over them, and the explanation of the result."""
