"""Queries: what people search, how often they click, and what they find no answer for, from the log."""
