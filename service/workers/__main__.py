"""`python -m service.workers START` runs a worker."""

import sys

from service.workers.worker import run

if __name__ == "__main__":
    run(sys.argv[1])
