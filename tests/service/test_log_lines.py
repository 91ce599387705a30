"""Each line of the log is JSON, also where a library writes it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

PROGRAM = """
import logging, warnings
import structlog
from service.runtime.log_lines import configure_logging
configure_logging("{level}")
configure_logging("{level}")
structlog.get_logger().error("own_event", n=1)
logging.getLogger("uvicorn.error").warning("Invalid %s request", "HTTP")
logging.getLogger("quiet").info("nothing to see")
warnings.warn("overflow", RuntimeWarning)
try:
    1 / 0
except ZeroDivisionError:
    logging.getLogger("library").exception("failed")
"""


ODD = """
import logging
from service.runtime.log_lines import configure_logging
configure_logging("{level}")
library = logging.getLogger("library")
library.warning("%d", "word")
for number in (35, 45, 60):
    library.log(number, "level %d", number)
library.warning("\\ud800")
library.error("after")
"""


def logged(level: str, program: str = PROGRAM) -> list[dict[str, Any]]:
    """Return the lines of a program that logs at this level."""
    command = [sys.executable, "-W", "default", "-c", program.format(level=level)]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stderr.splitlines()]


def test_messages_and_warnings_of_libraries_are_lines_of_json() -> None:
    own, message, warning, failure = logged("info")
    assert (own["event"], own["n"]) == ("own_event", 1)
    wanted = {"event": "library_message", "level": "warning", "library": "uvicorn.error"}
    assert message | wanted | {"message": "Invalid HTTP request"} == message
    wanted = {"event": "python_warning", "level": "warning", "category": "RuntimeWarning", "message": "overflow"}
    assert warning | wanted | {"where": "<string>:10"} == warning
    assert (failure["level"], failure["message"]) == ("error", "failed")
    assert "ZeroDivisionError" in failure["exception"]


def test_the_level_of_the_log_holds_for_libraries() -> None:
    assert [one.get("message") for one in logged("error")] == [None, "failed"]


def test_no_message_of_a_library_is_an_error_in_the_library() -> None:
    failed, *others = logged("info", ODD)
    assert (failed["event"], failed["level"], failed["library"]) == ("library_message_failed", "error", "library")
    assert failed["where"] == "<string>:6"
    assert "TypeError" in failed["exception"]
    wanted = [("warning", "level 35"), ("error", "level 45"), ("critical", "level 60"), ("warning", "\ud800")]
    assert [(one["level"], one["message"]) for one in others] == [*wanted, ("error", "after")]
