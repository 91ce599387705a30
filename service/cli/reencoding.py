"""`reencode` and `reindex`: other vectors, other kinds of keys or another language for a collection with documents."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.cli import show
from service.cli.collections import Language, key_kinds
from service.cli.connection import open_runtime, quiet, settings_from
from service.cli.failures import ERROR, USAGE, Failure
from service.cli.options import DataOption, JsonOption

if TYPE_CHECKING:
    from service.runtime.collection import CollectionState
    from service.runtime.runtime import Runtime


def reencode(
    collection: Annotated[str, typer.Argument(help="The name of the collection.", metavar="COLLECTION")],
    encoder: Annotated[str, typer.Option(help="The sentence-transformers model, by name or folder.", metavar="MODEL")],
    data: DataOption = None,
    json_out: JsonOption = False,
) -> None:
    """Encode the documents and past queries of a collection with another model. No server may run on the directory.

    Empty collections get the encoder too.
    """
    settings = quiet(settings_from(data=data, encoder=encoder))
    with open_runtime(settings) as runtime:
        from service.operations.reencoding import reencode, reencode_empty, retired_champion

        with switching(runtime, collection) as state:
            with show.progress("encoding") as bar:
                done = reencode(runtime, state, lambda count, total: bar.show("encoding", count, total))
            empty = reencode_empty(runtime)
        others = other_encoders(runtime)
        retired = done.champion_before if done else retired_champion(runtime, state)
    if json_out:
        facts = asdict(done) if done else None
        named = {"collection": collection, "encoder": encoder, "empty": empty, "others": others}
        show.data(named | {"changed": done is not None, "done": facts})
    elif done is None:
        show.line(f"{collection} has the vectors of {encoder} already")
    else:
        show.line(f"{collection}: {done.documents} documents and {done.queries} past queries encoded with {encoder}")
        if done.anonymous_queries_deleted:
            show.line(
                f"{done.anonymous_queries_deleted} anonymous past queries were deleted: their texts are not stored, "
                "so they cannot be encoded"
            )
    # also where nothing was left to do: an attempt that was killed after its switch has not said it
    if retired and not json_out:
        show.line(f"champion: model 0 (untrained) instead of model {retired}, which is kept: train again")
    show.notice(f"set SOFTSEEK_ENCODER={encoder} for the next commands and servers on this directory")
    for name in empty:
        show.notice(f"{name} is empty and has the encoder {encoder} from now on")
    for name in others:
        show.notice(f"{name} has another encoder and cannot be searched beside: reencode {name} too")


def reindex(
    collection: Annotated[str, typer.Argument(help="The name of the collection.", metavar="COLLECTION")],
    language: Annotated[Language | None, typer.Option(help="Language of stemming.")] = None,
    keys: Annotated[str | None, typer.Option(help="Kinds of keys: title,passage,sentence.")] = None,
    data: DataOption = None,
    json_out: JsonOption = False,
) -> None:
    """Change the language or the kinds of keys of a collection that has documents. No server may run on the directory.

    Feedback, rules and models stay. Only new keys are encoded.
    """
    changes: dict[str, Any] = {}
    if language is not None:
        changes["language"] = str(language)
    if keys is not None:
        changes["keys"] = key_kinds(keys)
    if not changes:
        raise Failure(USAGE, "expected --language or --keys")
    if "passage" not in changes.get("keys", ["passage"]):
        raise Failure(USAGE, "--keys: must contain passage: passages score the documents that have no other keys")
    with open_runtime(quiet(settings_from(data=data))) as runtime:
        from service.operations.reindexing import reindex

        with switching(runtime, collection) as state, show.progress("encoding") as bar:
            done = reindex(runtime, state, changes, lambda count, total: bar.show("encoding", count, total))
    if json_out:
        show.data({"collection": collection, "changed": done is not None, "done": asdict(done) if done else None})
    elif done is None:
        show.line(f"{collection} is indexed like that already")
    else:
        show.line(f"{collection}: {done.documents} documents, language {done.language}, keys {','.join(done.keys)}")
        if done.train_again:
            show.line(f"model {done.champion} learned from another index and still serves: train again")


def other_encoders(runtime: "Runtime") -> list[str]:
    """Return the names of the collections that have another encoder."""
    fingerprint = runtime.encoder.fingerprint
    return sorted(name for name, state in runtime.collections.items() if state.fingerprint != fingerprint)


@contextmanager
def switching(runtime: "Runtime", collection: str) -> Iterator["CollectionState"]:
    """Yield the collection that gets other rows. Raise refusals and a full disk as a Failure."""
    from index.errors import SearchError
    from index.storage.full_disk import is_full
    from service.http.problems import Problem

    state = None
    try:
        state = runtime.collection(collection)
        yield state
    except (Problem, SearchError) as error:
        raise Failure(ERROR, str(error)) from error
    except Exception as error:
        if state is None or not is_full(error):
            raise
        raise no_space(runtime, state, error) from error


def no_space(runtime: "Runtime", state: "CollectionState", error: Exception) -> Failure:
    """Return the failure of a disk that is full. state: the collection as it was at the start of the command."""
    from index.storage.full_disk import NotSynced
    from service.http.problems import INSUFFICIENT_STORAGE
    from service.runtime.collection_repository import collection_row

    with runtime.database.read() as connection:
        is_switched = collection_row(connection, state.id)["documents_watermark"] != state.documents_watermark
    if is_switched:
        standing = f"{state.name} was switched"
    elif isinstance(error, NotSynced):  # the next start may find the commit in the write-ahead log
        standing = f"{state.name} may have been switched"
    else:
        standing = "nothing was switched"
    repeat = "repeat the command when there is space, and it goes on"
    return Failure(ERROR, f"{INSUFFICIENT_STORAGE}: the disk is full: {standing}; {repeat}")
