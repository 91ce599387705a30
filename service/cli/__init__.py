"""The command line. Every command uses the HTTP API: of a server at --url, or of the service opened in this process.

Data goes to stdout, all other output to stderr. `failures` lists the exit codes.
"""

import os
import signal
import sqlite3
import sys
from collections.abc import Sequence
from errno import ENOSPC
from functools import cache
from types import FrameType
from typing import Any, NoReturn, TextIO

import typer

from index.storage.full_disk import is_full
from service.cli import (
    aliases,
    collections,
    content,
    deploying,
    documents,
    erasing,
    evaluation,
    exports,
    feedback,
    ingest,
    judging,
    keys,
    models,
    moving,
    operating,
    queries,
    recommending,
    reencoding,
    rules,
    show,
    snapshots,
    synonyms,
    training,
)
from service.cli.credentials import take_keys
from service.cli.failures import DONE, ERROR, INTERRUPTED, TERMINATED, USAGE, Failure

PRIMARY = 0xFF
"""The bits of an error code of SQLite that name the kind of error; the others name its cause."""
FAILED_FILE = {
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_NOTADB,
}
"""The kinds of errors of SQLite with which the system refuses a read or write of its file, or the file is damaged."""

app = typer.Typer(
    name="softseek",
    help="A search engine that learns from feedback.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.callback()(operating.options)
app.command()(operating.serve)
app.command()(operating.demo)
app.command()(ingest.ingest)
app.command()(content.search)
app.command()(recommending.recommend)
app.add_typer(collections.collections, name="collections")
app.add_typer(aliases.aliases, name="aliases")
app.add_typer(documents.documents, name="documents")
app.add_typer(feedback.events, name="events")
app.add_typer(feedback.judgments, name="judgments")
app.add_typer(rules.rules, name="rules")
app.add_typer(synonyms.synonyms, name="synonyms")
app.command()(queries.queries)
app.command()(judging.judge)
app.command()(training.train)
app.command("training-runs")(training.training_runs)
app.add_typer(models.models, name="models")
app.command()(evaluation.evaluate)
app.add_typer(keys.keys, name="keys")
app.command()(keys.audit)
app.command()(operating.doctor)
app.add_typer(snapshots.snapshots, name="snapshot")
app.command("export")(exports.export)
app.command("import")(exports.import_export)
app.command()(moving.move)
app.add_typer(deploying.deploying, name="deploy")
app.command()(reencoding.reencode)
app.command()(reencoding.reindex)
app.command()(erasing.erase)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command and end the process with its exit code."""
    replace_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        signal.signal(signal.SIGTERM, terminate)
        try:
            sys.exit(run(sys.argv[1:] if arguments is None else list(arguments)))
        except BaseException as end:  # a command ends with SystemExit too
            flush_stdout(succeeded=isinstance(end, SystemExit) and not end.code)
            raise
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        silence(sys.stdout)
        sys.exit(ERROR)
    except Exception as error:
        if isinstance(error.__cause__, KeyboardInterrupt):  # Ctrl-C while a class was made
            sys.exit(INTERRUPTED)
        reason = failed_system(error)
        if reason is None:
            raise
        silence(sys.stdout)
        show.notice(f"system_error: {reason}")
        sys.exit(ERROR)


def run(arguments: list[str]) -> int:
    """Run a command and return its exit code."""
    try:
        refuse_surrogates(arguments)
        command()(arguments, prog_name="softseek")
    except Failure as failure:
        for line in failure.lines:
            show.notice(line)
        return failure.exit_code
    return DONE


def failed_system(error: Exception) -> str | None:
    """Return what failed below a command, such as a full disk behind stdout or the file of the database; else None."""
    if isinstance(error, OSError):
        return str(error)
    if is_full(error):
        return str(OSError(ENOSPC, os.strerror(ENOSPC)))
    reported = getattr(error, "orig", None) or error  # SQLAlchemy does not wrap what fails when it connects
    code = getattr(reported, "sqlite_errorcode", 0) & PRIMARY
    return f"the database cannot be read or written: {reported}" if code in FAILED_FILE else None


@cache
def command() -> Any:
    """Return the command with all its commands. Making it takes 14 ms, and a process may run it many times."""
    return take_keys(typer.main.get_command(app))


def refuse_surrogates(arguments: list[str]) -> None:
    """Raise Failure USAGE for an argument that is not UTF-8."""
    for number, argument in enumerate(arguments, 1):
        try:
            argument.encode()
        except UnicodeEncodeError as error:
            raise Failure(USAGE, f"argument {number} is not UTF-8") from error


def terminate(_number: int, _frame: FrameType | None) -> NoReturn:
    """Exit on SIGTERM as after an error, so that open resources are closed."""
    raise SystemExit(TERMINATED)


def replace_closed_streams() -> None:
    """Replace the streams that are None, because the process started without them (`>&-`).

    Reading from such a stdin and writing to such a stdout is an OSError. What is written to such a stderr is lost.
    """
    for name, mode, access in (("stdin", "r", os.O_WRONLY), ("stdout", "w", os.O_RDONLY), ("stderr", "w", os.O_WRONLY)):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, access), mode))


def flush_stdout(succeeded: bool) -> None:
    """Flush stdout: Python's own flush at exit prints an error in several lines and replaces the exit code by 120.

    Raises OSError only after a success, so that it hides no other error and no other exit code.
    """
    try:
        sys.stdout.flush()
    except OSError:
        silence(sys.stdout)
        if succeeded:
            raise


def silence(stream: TextIO) -> None:
    """Redirect a stream to /dev/null, so that flushing its buffer at exit raises no error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
