"""`reencode`: gives a collection the keys and values of another encoder."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from service.cli import show
from service.cli.connection import open_runtime, quiet, settings_from
from service.cli.failures import ERROR, Failure
from service.cli.options import DataOption, JsonOption

if TYPE_CHECKING:
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
        from index.errors import SearchError
        from service.http.problems import Problem
        from service.operations.reencoding import reencode, reencode_empty

        try:
            state = runtime.collection(collection)
            with show.progress("encoding") as bar:
                done = reencode(runtime, state, lambda count, total: bar.show("encoding", count, total))
            empty = reencode_empty(runtime)
        except (Problem, SearchError) as error:
            raise Failure(ERROR, str(error)) from error
        others = other_encoders(runtime)
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
        if done.champion_before:
            show.line(
                f"champion: model 0 (untrained) instead of model {done.champion_before}, which is kept: train again"
            )
    if done is not None:
        show.notice(f"set SOFTSEEK_ENCODER={encoder} for the next commands and servers on this directory")
    for name in empty:
        show.notice(f"{name} is empty and has the encoder {encoder} from now on")
    for name in others:
        show.notice(f"{name} has another encoder and cannot be searched beside: reencode {name} too")


def other_encoders(runtime: "Runtime") -> list[str]:
    """Return the names of the collections that have another encoder."""
    fingerprint = runtime.encoder.fingerprint
    return sorted(name for name, state in runtime.collections.items() if state.fingerprint != fingerprint)
