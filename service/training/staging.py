"""The names of what lies in the staging folder of a training run: the service and the child that trains know them."""

MODEL = "model"
REPORT = "report.json"
INPUTS = "inputs"
JOURNAL = "journal"
LOCK = "lock"
STAGED = "staged"
"""In the last line that is told: model and report are whole, and nothing depends on the child any more."""
