"""Collections: create, show, list, delete."""
