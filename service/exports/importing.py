"""Imports an export: checks the whole file, inserts all rows in one transaction, then opens the collections.

A collection of the export must be new, or have nothing in it: then it is replaced. An import that fails or is killed
leaves no row.
"""

import shutil
from collections.abc import Callable, Collection
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import structlog
from pydantic import ValidationError
from sqlalchemy import Connection

from index.errors import SearchError
from index.generation.store import GenerationStore
from service.collections.schemas import NAME_PATTERN, CollectionIn, SwapIn
from service.documents.indexing import resume_collection
from service.documents.schemas import DocumentIn
from service.exports.query_keys_repository import renew_query_keys
from service.exports.reading import check_export, invalid, records
from service.exports.record_repository import RecordType
from service.exports.repository import (
    RowRefused,
    delete_aliases,
    insert_collection,
    insert_files,
    insert_rows,
    is_unused,
)
from service.http.answers import TaskType
from service.http.problems import Problem
from service.runtime.collection import CollectionState
from service.runtime.collection_repository import (
    collection_aliases,
    collection_row,
    delete_collection,
    indexed_documents,
)
from service.runtime.collection_settings import CollectionSettings
from service.runtime.jobs import Progress
from service.runtime.loader import index_directory, load_serving, memory_keys
from service.runtime.rule_repository import rulebook
from service.runtime.runtime import Runtime
from service.storage.database import now

KIND: TaskType = "import"
"""The type of the task."""
ROWS_AT_ONCE = 500
MOST_NAMED = 20
"""Names in the detail of a problem, at most."""
REFERENCES = {"document_row": "document", "event_id": "event", "judgment_id": "judgment"}
"""Column -> the type of the record that it refers to."""
INTERRUPTED = {"code": "interrupted", "detail": "the export was made during this run, and an import cannot resume it"}
"""The error of a run that had not ended: it cannot be resumed without its staging folder."""
log = structlog.get_logger()


def start_import(runtime: Runtime, path: Path) -> str:
    """Start the task that imports a spooled export and deletes the file; return its id."""
    ended = Event()

    def work(progress: Progress) -> dict[str, Any]:
        try:
            return import_export(runtime, path, progress)
        finally:
            end()

    def end() -> None:
        path.unlink(missing_ok=True)
        ended.set()
        runtime.accepted_imports.discard(path)

    try:
        task_id = runtime.jobs.start(KIND, None, work)
    except BaseException:
        end()
        raise
    runtime.accepted_imports.add(path)  # only now: an erasure that waits for it must not be before it in the queue
    if ended.is_set():
        runtime.accepted_imports.discard(path)
    return task_id


def import_export(runtime: Runtime, path: Path, progress: Progress) -> dict[str, Any]:
    """Import an export; return the number of records and the names of the collections.

    A collection without content is left out where one of its name is in use here, such as the collection `default`,
    which every service has. Raises Problem 422 `invalid_export`, and 409 `collection_in_use` before any change.
    """
    count, names = check_export(path, progress.advance)
    with runtime.collections_lock:
        replaced = [state for name, state in runtime.collections.items() if name in names.collections]
        with runtime.database.write() as connection:
            unused_there = names.collections - names.filled
            skipped = {state.name for state in replaced if state.name in unused_there and _is_used(connection, state)}
            names.collections.difference_update(skipped)
            aliases = {alias for alias, of in names.aliases.items() if of not in skipped}
            replaced = [state for state in replaced if state.name not in skipped]
            _require_unused(connection, runtime, names.collections, aliases, replaced)
            for state in replaced:
                delete_collection(connection, state.id)
            delete_aliases(connection, aliases)
            importer = Importer(connection, runtime.settings.data, skipped)
            try:
                importer.read(path, names.schema, progress.check)
            except BaseException:
                importer.discard_indexes()
                raise
        _open(runtime, importer.collections, replaced)
    return {"records": count, "collections": sorted(names.collections)}


def _is_used(connection: Connection, state: CollectionState) -> bool:
    return not is_unused(connection, state.id, state.name)


def _require_unused(
    connection: Connection,
    runtime: Runtime,
    collections: set[str],
    aliases: set[str],
    replaced: list[CollectionState],
) -> None:
    """Raise Problem 409 if a collection or an alias of the export would take a name that is in use here.

    A collection without content is not in use, nor is an alias of such a collection or of none.
    """
    used = {state.name for state in replaced if _is_used(connection, state)}
    used |= collections & runtime.aliases.keys()
    kept = runtime.collections.keys() - {state.name for state in replaced}
    used |= aliases & kept
    used |= {alias for alias in aliases & runtime.aliases.keys() if runtime.aliases[alias] in used | kept}
    if used:
        named = ", ".join(sorted(used)[:MOST_NAMED])
        detail = f"{len(used)} collections or aliases of the import are in use here: {named}; delete them first"
        raise Problem(409, "collection_in_use", detail)


def _open(runtime: Runtime, imported: dict[str, int], replaced: list[CollectionState]) -> None:
    """Open the imported collections in place of those that they replace."""
    for state in replaced:
        state.remove_index()
    with runtime.database.read() as connection:
        rows = [collection_row(connection, number) for number in imported.values()]
        runtime.aliases = collection_aliases(connection)
    states = [runtime.open_collection(row, new=True) for row in rows]
    for state in states:
        try:
            resume_collection(runtime, state)
        except Exception as error:  # the import is committed; the next start resumes the documents
            log.warning("documents_not_resumed", collection=state.name, reason=str(error))


class Importer:
    """Inserts records, in the order of the export, and gives new numbers to rows."""

    def __init__(self, connection: Connection, data: Path, skipped: Collection[str] = ()) -> None:
        """skipped: the collections that are left out."""
        self._connection = connection
        self._skipped = skipped
        self._data = data
        self._line = 0
        self._waiting: list[dict[str, Any]] = []
        self._kind: RecordType | None = None
        self._numbers: dict[str, dict[int, int]] = {name: {} for name in REFERENCES.values()}
        """Type -> number in the export -> number of the row."""
        self._widths: dict[str, int] = {}
        """Collection -> the width of its vectors."""
        self.collections: dict[str, int] = {}
        """Name -> number of each imported collection."""

    def read(self, path: Path, schema: str, proceed: Callable[[], None]) -> None:
        """Insert every record of a file of this schema. Raises Problem 422 `invalid_export`."""
        try:
            for number, kind, values, files in records(path):
                self._line = number
                if (values["name"] if kind.name == "collection" else values["of_collection"]) in self._skipped:
                    continue
                if self._kind is not kind or len(self._waiting) >= ROWS_AT_ONCE:
                    self._insert()
                    proceed()
                self._kind = kind
                self._add(kind, values, files)
            self._insert()
            for name, collection_id in self.collections.items():
                renew_query_keys(self._connection, collection_id, schema)
                self._try(name)
        except RowRefused as error:
            raise invalid(self._line, "a record before this line has the name of another, or refers to none") from error
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, SearchError) as error:
            reason = str(error) if isinstance(error, Unfit) else "a record refers to none, or cannot be used"
            raise invalid(self._line, reason) from error

    def discard_indexes(self) -> None:
        """Delete the indexes of the imported collections."""
        for number in self.collections.values():
            shutil.rmtree(index_directory(self._data, number), ignore_errors=True)

    def _add(self, kind: RecordType, values: dict[str, Any], files: dict[str, bytes]) -> None:
        collection = values.pop("of_collection")
        if kind.name == "collection":
            self.collections[_named(values)] = insert_collection(self._connection, values)
            self._widths[values["name"]] = values["dim"]
            return
        if kind.has_collection:
            values["collection_id"] = self.collections[collection]
        if kind.name == "document":
            _check_document(values)
        if kind.name == "training_run" and values["status"] == "processing":
            values |= {"status": "failed", "error": INTERRUPTED, "finished_at": now()}
        for column in REFERENCES.keys() & values.keys():
            if values[column] is not None:
                values[column] = self._numbers[REFERENCES[column]][values[column]]
        if "vector" in values and kind.has_collection:
            _check_vector(values["vector"], self._widths[collection])
        if files:
            insert_files(self._connection, values["collection_id"], values["version"], files)
        self._waiting.append(values)

    def _insert(self) -> None:
        """Insert the waiting rows, and keep the numbers that later records refer to."""
        kind, rows, self._waiting = self._kind, self._waiting, []
        if kind is None or not rows:
            return
        before = [row.pop(kind.number) for row in rows] if kind.number else []
        after = insert_rows(self._connection, kind, rows)
        if kind.name in self._numbers:
            self._numbers[kind.name].update(zip(before, after, strict=True))

    def _try(self, name: str) -> None:
        """Build what a start builds of a collection, and save its index. A collection that does not open is refused."""
        connection, row = self._connection, collection_row(self._connection, self.collections[name])
        language = row["settings"]["language"]
        load_serving(connection, row)
        if rulebook(connection, row["id"], row["dim"]).unreadable:
            raise Unfit("a rule is not as documented, or lacks the vector of its text")
        store = GenerationStore(index_directory(self._data, row["id"]), row["dim"], language)
        try:
            documents = indexed_documents(connection, row["id"], needs_vectors=True)
            store.apply(row["documents_watermark"], documents)
            store.remember(row["watermark"], memory_keys(connection, row))
            store.save(language, row["documents_watermark"])  # the index that is opened after the commit
        finally:
            store.close()


class Unfit(ValueError):
    """A record with a value that the service does not accept."""


def _named(values: dict[str, Any]) -> str:
    """Return the name of a collection whose name and settings are as the API accepts them."""
    try:
        SwapIn(a=values["name"], b=values["name"])
        settings = CollectionSettings(**values["settings"])
        CollectionIn.model_validate({name: one for name, one in values["settings"].items() if name != "synonyms"})
        settings.initial(values["dim"])
        assert settings.reading is not None
    except (ValidationError, TypeError, ValueError, LookupError) as error:
        raise Unfit(f"the name or the settings of a collection are not as documented ({NAME_PATTERN})") from error
    return str(values["name"])


def _check_document(values: dict[str, Any]) -> None:
    try:
        DocumentIn.model_validate({name: values[name] for name in ("id", "title", "text", "url", "metadata")})
    except ValidationError as error:
        raise Unfit("a document is not as documented") from error


def _check_vector(vector: bytes | None, width: int) -> None:
    """Raise Unfit unless a vector is empty, or has finite numbers, as many as the vectors of its collection."""
    if vector and (len(vector) != 4 * width or not np.isfinite(np.frombuffer(vector, "<f4")).all()):
        raise Unfit("a vector has another width than its collection, or numbers that are not finite")
