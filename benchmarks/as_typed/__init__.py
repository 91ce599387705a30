"""Queries as people type them: with mistakes, and letter by letter."""
