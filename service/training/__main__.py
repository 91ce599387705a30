"""The start of a training process: `python -m service.training SPECIFICATION`.

It lowers its priority and obeys the service before it imports the libraries of training, which takes seconds.
"""

import os
import sys

from service.training.pauses import ORPHANED, obey

NICENESS = 10


def main(arguments: list[str]) -> int:
    """Run the fit of a JSON specification; return the exit code."""
    obey(0, lambda: os._exit(ORPHANED))  # sys.stdin would abort at exit
    os.nice(NICENESS)
    from service.training import child

    return child.main(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
