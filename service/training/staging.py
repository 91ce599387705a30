"""Names in the staging folder of a training run, which the service and the training process share."""

MODEL = "model"
REPORT = "report.json"
INPUTS = "inputs"
TRIAL_CACHE = "journal"
LOCK = "lock"
STAGED = "staged"
"""The key in the last line of the training process: model and report are complete, and the process may be ended."""
