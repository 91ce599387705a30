"""Rules: documents that the owner of a collection pins or hides for matching queries."""
