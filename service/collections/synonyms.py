"""Synonyms of a collection: stored in its settings, and used by the next search."""

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import Path
from fastapi.responses import JSONResponse, Response
from pydantic import Field, model_validator

from index.words.reading_options import folded
from service.collections.answers import StoredSynonyms, Synonyms, SynonymsList
from service.collections.repository import update_settings
from service.collections.schemas import Word
from service.http.answers import answers
from service.http.problems import Problem, not_found
from service.http.requests import Strict
from service.http.routers import new_router
from service.runtime.collection import CollectionState
from service.runtime.collection_repository import require_collection
from service.runtime.dependency import Running
from service.runtime.runtime import Runtime

MAX_SYNONYMS = 10_000
"""Entries of a collection."""

router = new_router("/v1/collections/{collection}/synonyms", "synonyms")
ID = {"min_length": 1, "max_length": 128, "pattern": r"^[^/\x00]+$"}
SynonymId = Annotated[str, Path(**ID)]


class SynonymsIn(Strict):
    """Words or short phrases that mean the same. With `from`, only that word is replaced by the others."""

    words: Annotated[list[Word], Field(min_length=1, max_length=50)]
    from_: Annotated[Word | None, Field(alias="from")] = None

    @model_validator(mode="after")
    def _useful(self) -> "SynonymsIn":
        words = {folded(word) for word in self.words} - {""}  # as the words of queries are compared with them
        replaced = words if self.from_ is None else {folded(self.from_)} - {""}
        if not replaced or len(words | replaced) < 2:
            raise ValueError("synonyms are at least two different words")
        return self


class SynonymsWithId(SynonymsIn):
    """An entry of synonyms with its id."""

    id: Annotated[str, Field(**ID)]


class SynonymsListIn(Strict):
    """Entries to store, each in place of the entry with its id."""

    synonyms: Annotated[list[SynonymsWithId], Field(max_length=MAX_SYNONYMS)]
    replace_all: bool = False
    """Whether all other entries are deleted."""

    @model_validator(mode="after")
    def _distinct(self) -> "SynonymsListIn":
        if len({entry.id for entry in self.synonyms}) < len(self.synonyms):
            raise ValueError("two entries have the same id")
        return self


@router.post("", responses=answers((200, StoredSynonyms, "Stored")))
def post_synonyms(runtime: Running, collection: str, wanted: SynonymsListIn) -> dict[str, Any]:
    """Store many entries of synonyms in one change, all or none. With `replace_all` there are no others afterwards."""
    state = runtime.collection(collection)
    given = {entry.id: {"words": entry.words, "from": entry.from_} for entry in wanted.synonyms}
    with state.lock:
        before = state.settings.synonyms
        entries = given if wanted.replace_all else {**before, **given}
        if len(entries) > MAX_SYNONYMS:
            raise Problem(422, "too_many_synonyms", f"a collection has at most {MAX_SYNONYMS} entries of synonyms")
        _store(runtime, state, entries)
    return {"stored": len(given), "deleted": len(before.keys() - entries.keys()), "entries": len(entries)}


@router.put("/{synonym_id}", responses=answers((200, Synonyms, "Replaced"), (201, Synonyms, "Created")))
def put_synonyms(runtime: Running, collection: str, synonym_id: SynonymId, synonyms: SynonymsIn) -> Response:
    """Create or replace an entry of synonyms."""
    state = runtime.collection(collection)
    entry = {"words": synonyms.words, "from": synonyms.from_}
    with state.lock:
        entries = state.settings.synonyms
        created = synonym_id not in entries
        if created and len(entries) >= MAX_SYNONYMS:
            raise Problem(422, "too_many_synonyms", f"a collection has at most {MAX_SYNONYMS} entries of synonyms")
        _store(runtime, state, {**entries, synonym_id: entry})
    return JSONResponse({"id": synonym_id, **entry}, 201 if created else 200)


@router.get("", responses=answers((200, SynonymsList, "The entries")))
def list_synonyms(runtime: Running, collection: str) -> dict[str, Any]:
    """List the entries of synonyms."""
    entries = runtime.collection(collection).settings.synonyms
    return {"synonyms": [{"id": id, **entry} for id, entry in sorted(entries.items())]}


@router.get("/{synonym_id}", responses=answers((200, Synonyms, "The entry")))
def get_synonyms(runtime: Running, collection: str, synonym_id: SynonymId) -> dict[str, Any]:
    """Show an entry of synonyms."""
    entry = runtime.collection(collection).settings.synonyms.get(synonym_id)
    if entry is None:
        raise not_found("synonyms")
    return {"id": synonym_id, **entry}


@router.delete("/{synonym_id}", status_code=204)
def delete_synonyms(runtime: Running, collection: str, synonym_id: SynonymId) -> Response:
    """Delete an entry of synonyms."""
    state = runtime.collection(collection)
    with state.lock:
        if synonym_id not in state.settings.synonyms:
            raise not_found("synonyms")
        _store(runtime, state, {id: entry for id, entry in state.settings.synonyms.items() if id != synonym_id})
    return Response(status_code=204)


def _store(runtime: Runtime, state: CollectionState, entries: dict[str, dict[str, Any]]) -> None:
    """Store the entries durably and use them. The caller holds the lock. Raises Problem 404."""
    settings = state.settings.changed({"synonyms": entries})
    with runtime.database.write() as connection:
        require_collection(connection, state.id)
        update_settings(connection, state.id, asdict(settings))
    state.configure(settings)
