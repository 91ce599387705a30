"""The audit log: acts of administration, with the key that carried them out."""
