"""Processes that answer searches from a copy of the PostgreSQL database, which follows its change log."""
