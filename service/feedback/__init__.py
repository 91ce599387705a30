"""Feedback: events and judgments in, joined to their query, remembered at once, taken back exactly."""
