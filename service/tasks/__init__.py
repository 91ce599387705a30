"""Tasks: show and cancel."""
