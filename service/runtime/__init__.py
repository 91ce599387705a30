"""The parts of a running service that all slices share."""
