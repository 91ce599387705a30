"""Snapshots: one file with the database and the models, made while the service runs, verified, and restored."""
