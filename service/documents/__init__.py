"""Documents: store, encode, index, show, delete."""
