"""Candidate indexes: one contract, an exact reference, and faiss."""
