"""The limit on open files of this process: a map of a file keeps it open, and a collection has more than ten maps."""

import resource


def allow_many_open_files() -> None:
    """Raise the limit to the most that the system allows this process; later processes inherit it."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
