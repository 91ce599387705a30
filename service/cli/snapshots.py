"""`snapshot`: creates, lists and deletes snapshots of a service, verifies a file, and restores it into a directory."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from service.cli import show
from service.cli.connection import connect, path_of, quiet, settings_from
from service.cli.failures import ERROR, OWNED, Failure
from service.cli.following import follow
from service.cli.options import DataOption, FileArgument, JsonOption, UrlOption

snapshots = typer.Typer(help="Snapshots: back up, verify and restore.", no_args_is_help=True)
NO_KEYS = "warning: the directory has no API keys, so every caller may do everything"
KEYS_RETURN = "warning: keys that were deleted or rotated after the snapshot are valid again"
IdArgument = Annotated[str, typer.Argument(help="The id of a snapshot.", metavar="ID")]


@snapshots.command("create")
def create(data: DataOption = None, url: UrlOption = None, json_out: JsonOption = False) -> None:
    """Make a snapshot in the folder `snapshots` of the data directory."""
    with connect(data, url) as service:
        task = service.call("POST", "/v1/snapshots")
        made = follow(service, f"/v1/tasks/{task['id']}", "snapshot")["result"]
    if json_out:
        show.data(made)
        return
    show.line(f"{made['file']}: {made['documents']} documents, {made['bytes']} bytes, sha256 {made['sha256']}")
    for model in made["damaged_models"]:
        show.notice(f"the files of model {model} are damaged, and copied as they are")


@snapshots.command("list")
def list_snapshots(data: DataOption = None, url: UrlOption = None, json_out: JsonOption = False) -> None:
    """List the snapshots, newest first."""
    with connect(data, url) as service:
        answer = service.call("GET", "/v1/snapshots")
    if json_out:
        show.data(answer)
        return
    rows = [(one["id"], one["documents"], one["bytes"], one["created_at"]) for one in answer["snapshots"]]
    show.table(("id", "documents", "bytes", "made at"), rows)
    if failure := answer["last_failure"]:
        show.notice(f"the last snapshot failed at {failure['finished_at']}: {failure['code']}: {failure['detail']}")


@snapshots.command("delete")
def delete(
    snapshot_id: IdArgument, data: DataOption = None, url: UrlOption = None, json_out: JsonOption = False
) -> None:
    """Delete a snapshot."""
    with connect(data, url) as service:
        service.call("DELETE", path_of("snapshots", snapshot_id))
    if json_out:
        show.data({"deleted": snapshot_id})
    else:
        show.line(f"snapshot {snapshot_id} is deleted")


@snapshots.command("verify")
def verify(file: FileArgument, json_out: JsonOption = False) -> None:
    """Check every byte of a snapshot, and the database in it. TMPDIR needs as much space as the file has."""
    with refusals(), show.progress("verifying") as bar:
        from service.snapshots.restoring import verify

        found = verify(file, advance=counted(bar, file))
    report(found, json_out, f"{file.name} is sound")
    if not json_out and found["upgraded_state"] != found["state"]:
        show.line(f"state {found['upgraded_state']} after this version has upgraded it from schema {found['schema']}")


@snapshots.command("restore")
def restore(file: FileArgument, data: DataOption = None, json_out: JsonOption = False) -> None:
    """Make a data directory of a snapshot. The directory must be new or empty."""
    target = quiet(settings_from(data=data)).data
    with refusals(), show.progress("restoring") as bar:
        from service.snapshots.restoring import restore

        found = restore(file, target, advance=counted(bar, file))
    report({"data": str(target), **found}, json_out, f"{target} is restored")
    if not json_out:
        show.line(f"API keys: {found['keys']}")
    show.notice(KEYS_RETURN if found["keys"] else NO_KEYS)


@contextmanager
def refusals() -> Iterator[None]:
    """Raise the errors of snapshots as a Failure."""
    from index.errors import SearchError
    from service.storage.owner_lock import DirectoryOwned

    try:
        yield
    except DirectoryOwned as error:
        raise Failure(OWNED, str(error)) from error
    except SearchError as error:
        raise Failure(ERROR, str(error)) from error
    except OSError as error:
        raise Failure(ERROR, error.strerror or str(error)) from error


def counted(bar: Any, file: Path) -> Any:
    """Return a function that shows the bytes of a snapshot that are read: twice all of them."""
    total, done = 2 * file.stat().st_size, 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        bar.show("reading", done, total)

    return advance


def report(found: dict[str, Any], json_out: bool, sentence: str) -> None:
    """Write what a snapshot contains."""
    if json_out:
        show.data(found)
        return
    counts = ", ".join(f"{count} {name}" for name, count in found["counts"].items())
    show.line(f"{sentence}: made at {found['made_at']} by Softseek {found['softseek']}: {counts}")
    show.line(f"state {found['state']}")
    for model in found["damaged_models"]:
        show.notice(f"the files of model {model} were damaged when the snapshot was made")
