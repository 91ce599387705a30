"""Generations: immutable searchable states of a collection, and the store that publishes them."""
