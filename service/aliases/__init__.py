"""Aliases of collections: further names, which can be pointed at another collection at once."""
