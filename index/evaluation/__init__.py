"""Evaluation: measures of ranked lists, and paired tests between two rankings."""
