"""`python -m service.workers SOCKET SETTINGS` runs the process that workers are forked from.

`python -m service.workers run START SETTINGS` runs a single worker.
"""

import sys

from service.runtime.garbage import collections_paused
from service.workers.channels import RUN, Start, settings_of


def main(arguments: list[str]) -> None:
    """Run the process that these arguments say."""
    with collections_paused():  # before the imports, which take most of the start
        from service.workers.spawner import serve
        from service.workers.worker import run

        if arguments[0] == RUN:
            run(Start.of(arguments[1]), settings_of(arguments[2]))
        else:
            serve(int(arguments[0]), arguments[1])


if __name__ == "__main__":
    main(sys.argv[1:])
