"""Encoders: sentence-transformers as the reference, and the same weights converted for faster runtimes."""
