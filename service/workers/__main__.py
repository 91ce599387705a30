"""`python -m service.workers SOCKET SETTINGS` runs the process that workers are forked from.

`python -m service.workers run START SETTINGS` runs a single worker.
"""

import sys

from service.workers.channels import Start, settings_of
from service.workers.spawner import RUN, serve
from service.workers.worker import run

if __name__ == "__main__":
    if sys.argv[1] == RUN:
        run(Start.of(sys.argv[2]), settings_of(sys.argv[3]))
    else:
        serve(int(sys.argv[1]), sys.argv[2])
