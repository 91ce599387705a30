"""Numbers as times of events. Imports nothing: the command line reads it, too."""

EARLIEST = 946_684_800
"""The year 2000 in seconds since 1970: a smaller number is no time of an event, but a mistake."""
