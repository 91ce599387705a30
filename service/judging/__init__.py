"""Judging: the queries and documents whose judgment decides most."""
