"""Recommendation: from liked and disliked documents to documents like them."""
