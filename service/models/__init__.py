"""Models: list, compare, evaluate, promote, roll back."""
