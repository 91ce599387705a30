"""`export` writes content as lines of JSON, and `import` reads it into another data directory or server."""

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO, Annotated
from urllib.parse import urlencode

import typer

from service.cli import show
from service.cli.connection import connect
from service.cli.failures import ERROR, Failure
from service.cli.following import follow
from service.cli.options import DataOption, FileArgument, JsonOption, UrlOption, names_of

PART_BYTES = 256 * 1024
TargetArgument = Annotated[str, typer.Argument(help="The file to write; - writes to stdout.", metavar="FILE|-")]


def export(
    file: TargetArgument,
    collections: Annotated[
        list[str] | None,
        typer.Option("--collections", "--collection", help="The collections, with their aliases; by default all."),
    ] = None,
    data: DataOption = None,
    url: UrlOption = None,
    json_out: JsonOption = False,
) -> None:
    """Write documents, feedback, models, rules and settings as lines of JSON."""
    if file == "-" and json_out:
        raise Failure(ERROR, "--json and - exclude each other: both write to stdout")
    query = urlencode([("collections", name) for name in names_of(collections) or ()])
    path = "/v1/export" + (f"?{query}" if query else "")
    with connect(data, url) as service, service.download(path) as parts:
        if file == "-":
            lines = copied(parts, sys.stdout.buffer)
            sys.stdout.buffer.flush()
            return
        lines = saved(parts, Path(file))
    size = Path(file).stat().st_size
    if json_out:
        show.data({"file": file, "lines": lines, "bytes": size})
    else:
        show.line(f"{file}: {lines} lines, {size} bytes")


def import_export(
    file: FileArgument, data: DataOption = None, url: UrlOption = None, json_out: JsonOption = False
) -> None:
    """Import an export. Its collections must be new there, or have nothing in them."""
    with connect(data, url, creates=True) as service:
        task = service.upload("/v1/import", parts_of(file))
        done = follow(service, f"/v1/tasks/{task['id']}", "importing")["result"]
    if json_out:
        show.data(done)
    else:
        show.line(f"{done['records']} records imported: {', '.join(done['collections'])}")


def parts_of(path: Path) -> Iterator[bytes]:
    """Yield the parts of a file."""
    with path.open("rb") as file:
        while part := file.read(PART_BYTES):
            yield part


def saved(parts: Iterable[bytes], path: Path) -> int:
    """Write the parts to a file that only this user can read; return the number of lines. The name is whole or new.

    A device or a pipe gets the parts as they come.
    """
    try:
        path = path.resolve()
        if path.exists() and not path.is_file():
            with path.open("wb") as device:
                return copied(parts, device)
        with NamedTemporaryFile(dir=path.parent, prefix=".softseek-", suffix=".part", delete=False) as file:
            try:
                lines = copied(parts, file)
                file.flush()
                os.fsync(file.fileno())
                os.replace(file.name, path)
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise
    except OSError as error:
        raise Failure(ERROR, f"{path.name}: {error.strerror}") from error
    return lines


def copied(parts: Iterable[bytes], target: IO[bytes]) -> int:
    """Copy the parts; return the number of lines. Raises Failure if the last line of an export is missing."""
    lines, last = 0, b""
    for part in parts:
        target.write(part)
        lines += part.count(b"\n")
        last = (last + part)[-200:]
    if b'{"type":"end",' not in last or not last.endswith(b"\n"):
        raise Failure(ERROR, "the export broke off: the last line is missing")
    return lines
