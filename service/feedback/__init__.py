"""Feedback: store and delete events and judgments, with the memory made from them."""
