"""Encoding: texts to unit vectors, documents to keys and a value."""
