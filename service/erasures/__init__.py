"""Erasures: remove everything that one client, user or session left, and keep a receipt."""
