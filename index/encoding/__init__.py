"""Encoding: turns texts into unit vectors, and documents into keys and a value."""
