"""Documents: accept durably, encode, make searchable, show, delete."""
