"""Candidate indexes: the contract, an exact reference, and two faiss indexes over compressed keys."""
