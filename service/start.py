"""The entry point of the command line: imports the commands, which takes a second, then runs the typed command."""

import signal
from typing import NoReturn


def main() -> NoReturn:
    """Run a command and end the process with its exit code. Ctrl-C ends the process meanwhile without a traceback."""
    interrupts = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else a shell has it ignored
    if interrupts:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from service.cli import main  # takes long enough to be interrupted

    if interrupts:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    main()
