"""The demonstration: documents from the Python standard library, questions, and the learning loop on them."""
