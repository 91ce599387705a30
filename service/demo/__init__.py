"""The demonstration corpus: documents from the Python standard library and questions people ask about it."""
