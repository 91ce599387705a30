"""Candidate indexes: one contract, an exact reference, and two that scan compressed keys with faiss."""
