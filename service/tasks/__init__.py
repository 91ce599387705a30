"""Tasks: look at them and stop them."""
