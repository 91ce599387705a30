"""A collection whose documents are split: parts return raw evidence, and one place cuts, scales and attends."""
