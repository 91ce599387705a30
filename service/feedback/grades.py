"""What the actions of users say about a document. Imports nothing: the command line reads it, too."""

GRADES = {
    "impression": 0.0,
    "click": 1.0,
    "watch": 1.0,
    "add_to_cart": 2.0,
    "purchase": 3.0,
    "thumbs_up": 3.0,
    "thumbs_down": -1.0,
}
"""Action -> grade. Other actions are stored, but no model learns from them."""
