"""Names in the staging folder of a training run, which the service and the training process share."""

MODEL = "model"
REPORT = "report.json"
INPUTS = "inputs"
TRIAL_CACHE = "journal"
LOCK = "lock"
KNOWN_WORDS = "known_words.txt"
"""The words that the encoder of the service knows, one in a line."""
STAGED = "staged"
"""The key in the last line of the training process: model and report are complete, and the process may be ended."""
NO_SPACE = {"code": "insufficient_storage", "detail": "the disk is full: the run has made no model"}
"""The error of a run that found no space."""
