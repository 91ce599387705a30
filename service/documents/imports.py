"""Imports records of any number: reads a spooled body record by record, maps each, and stores them in batches."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

from index.storage.files import write_atomically
from service.documents.acceptance import Accepted, accept, failed_item
from service.documents.indexing import make_searchable
from service.documents.mapping import map_record
from service.documents.metadata import Unmappable
from service.documents.reading import Fault, Record, Unit
from service.documents.schemas import MAX_BATCH
from service.documents.spooling import BESIDE, COMPLETE, TAKEN, Spooled, reopened
from service.documents.words_first import publish_words, withdrawn_if_canceled
from service.http.answers import TaskType
from service.runtime.collection import CollectionState
from service.runtime.collection_repository import require_collection
from service.runtime.jobs import Progress, is_unended, name_successor
from service.runtime.runtime import Runtime
from service.runtime.task_repository import find_task, first_task_since
from service.storage.database import rfc3339

KIND: TaskType = "documents_import"
"""The type of the task."""
MAX_ERRORS = 1000
"""Failed records that a task's result names. The result counts all of them."""
MAX_NOTES = 100
"""Different notes that a task's result counts."""


@dataclass
class Batch:
    """Records in the order of the body, as documents to store or as outcomes of records that are refused."""

    documents: list[dict[str, Any]] = field(default_factory=list)
    indexes: list[int] = field(default_factory=list)
    """The position of each document in the body, from 0."""
    numbers: dict[int, int] = field(default_factory=dict)
    """Index -> line in the file, or position in the array, from 1."""
    bad: list[dict[str, Any]] = field(default_factory=list)
    notes: Counter[str] = field(default_factory=Counter)

    def __len__(self) -> int:
        return len(self.documents) + len(self.bad)


Interrupted = list[tuple[CollectionState, Spooled]]


def interrupted_imports(runtime: Runtime) -> Interrupted:
    """Return the imports that the end of an earlier process interrupted, oldest first; delete the bodies of others."""
    states = {str(state.id): state for state in runtime.collections.values()}
    for path in list(runtime.imports.iterdir()):
        if path.suffix != COMPLETE and (path.suffix not in BESIDE or not path.with_suffix(COMPLETE).is_file()):
            path.unlink(missing_ok=True)
    interrupted: Interrupted = []
    for spooled in sorted(map(reopened, runtime.imports.glob(f"*{COMPLETE}")), key=_begun):
        state = states.get(spooled.path.name.partition("-")[0])
        if state is not None and _was_interrupted(runtime, state, spooled):
            interrupted.append((state, spooled))
        else:
            spooled.remove()
    return interrupted


def resume_imports(runtime: Runtime, interrupted: Interrupted) -> None:
    """Resume imports, in this order.

    Records that are already stored are skipped, so that they do not overwrite newer documents.
    """
    for state, spooled in interrupted:
        start_import(runtime, state, spooled)


def _begun(spooled: Spooled) -> tuple[list[str], int]:
    """Return a key that sorts imports by the start of their first tasks. Those of earlier versions noted none."""
    return spooled.tasks[:1], spooled.path.stat().st_mtime_ns


def _was_interrupted(runtime: Runtime, state: CollectionState, spooled: Spooled) -> bool:
    """Return whether the task of an import has not ended, or has ended because the service stopped.

    Earlier versions noted no tasks: there, the first import of the collection since the body was complete decides.
    """
    with runtime.database.read() as connection:
        if noted := spooled.tasks:
            found = (find_task(connection, id) for id in reversed(noted))
            last = next((task for task in found if task is not None), None)
            return last is not None and is_unended(last)  # a task that is unknown ended long ago, or never began
        completed_at = rfc3339(datetime.fromtimestamp(spooled.path.stat().st_mtime, UTC))
        first = first_task_since(connection, KIND, state.name, completed_at)
    return first is None or is_unended(first)


def start_import(runtime: Runtime, state: CollectionState, spooled: Spooled) -> str:
    """Start the task that imports a spooled body; return its id. The body is deleted when the task has ended.

    The imports of a collection run one at a time, in the order of these calls. Raises Problem 503 `too_many_tasks`, and
    404 if the collection was deleted after its request began.
    """
    sequences: list[int] = []

    def work(progress: Progress) -> dict[str, Any]:
        return _import(runtime, state, spooled, progress, sequences)

    with runtime.database.write() as connection:
        require_collection(connection, state.id)
        task_id = runtime.jobs.enqueued(connection, KIND, state.name)
        for earlier in spooled.tasks:
            name_successor(connection, earlier, task_id)
        spooled.note_task(task_id)  # before the commit: no import has a task that its files do not name
    note_cancel = partial(state.replacements.cancel, sequences)
    runtime.jobs.run(task_id, work, spooled.remove, note_cancel, lane=(KIND, state.id))
    return task_id


def _taken_before(spooled: Spooled) -> tuple[int, dict[str, Any]]:
    """Return the number of records that an earlier process took, and their result. Earlier versions kept no result."""
    taken = spooled.path.with_suffix(TAKEN)
    stored = json.loads(taken.read_bytes()) if taken.is_file() else 0
    return (stored, {}) if isinstance(stored, int) else (stored["records"], stored["result"])


def _note_taken(spooled: Spooled, records: int, outcome: "Outcome") -> None:
    """Note the records that are stored or refused, and their result, durably and at once."""
    content = json.dumps({"records": records, "result": outcome.result()})
    write_atomically(spooled.path.with_suffix(TAKEN), content.encode())


def _import(
    runtime: Runtime, state: CollectionState, spooled: Spooled, progress: Progress, sequences: list[int]
) -> dict[str, Any]:
    """Run an import; add the sequence numbers of the documents that it stores to `sequences`."""
    progress.check()
    taken, before = _taken_before(spooled)
    with spooled.open(progress.check) as stream:
        progress.expect(sum(1 for _ in spooled.records(stream)))
    progress.plan_passages(taken, 0)
    progress.advance(taken)
    outcome = Outcome(spooled.format.unit, before)
    with withdrawn_if_canceled(runtime, state, sequences):
        for batch in _batches(spooled, taken, progress):
            accepted = accept(runtime, state, batch.documents)
            sequences += accepted.sequences
            outcome.add(batch, accepted)
            taken += len(batch)
            _note_taken(spooled, taken, outcome)  # before indexing: a restart resumes pending documents separately
            progress.plan_passages(len(batch) - len(accepted.sequences), 0)
            progress.advance(len(batch) - len(accepted.sequences))
            publish_words(runtime, state, accepted.sequences, progress)
        make_searchable(runtime, state, sequences, progress.advance, progress)
    return outcome.result() | progress.passage_counts


class Outcome:
    """The counts of an import, its first errors, and its notes."""

    def __init__(self, unit: Unit, before: Mapping[str, Any]) -> None:
        """before: the result of the records that an earlier process took, or nothing."""
        self._unit = unit
        self._counts = Counter({name: before.get(name, 0) for name in ("items_total", "failed", "unchanged")})
        self._notes: Counter[str] = Counter(before.get("notes", {}))
        self._errors: list[dict[str, Any]] = list(before.get("errors", ()))

    def add(self, batch: Batch, accepted: Accepted) -> None:
        """Add a batch whose documents were accepted or refused."""
        for outcome in accepted.items:
            outcome["index"] = batch.indexes[outcome["index"]]
        wrong = [*batch.bad, *(outcome for outcome in accepted.items if outcome["code"] is not None)]
        for outcome in wrong:
            outcome[self._unit] = batch.numbers[outcome["index"]]
        self._counts.update(items_total=len(batch), failed=len(wrong), unchanged=accepted.unchanged)
        self._errors += sorted(wrong, key=lambda outcome: int(outcome["index"]))[: MAX_ERRORS - len(self._errors)]
        self._notes.update(batch.notes)

    def result(self) -> dict[str, Any]:
        """Return the result of the task."""
        counts = dict(self._counts) | {"succeeded": self._counts["items_total"] - self._counts["failed"]}
        return counts | {"errors": self._errors, "notes": dict(self._notes.most_common(MAX_NOTES))}


def _batches(spooled: Spooled, skipped: int, progress: Progress) -> Iterator[Batch]:
    """Yield batches of up to MAX_BATCH records after the skipped records. Raises Canceled."""
    batch = Batch()
    with spooled.open(progress.check) as stream:
        for index, found in enumerate(spooled.records(stream)):
            if index < skipped:
                continue
            batch.numbers[index] = found.number
            _add(batch, index, found, spooled)
            if len(batch) >= MAX_BATCH:
                yield batch
                batch = Batch()
    if len(batch):
        yield batch


def _add(batch: Batch, index: int, found: Record | Fault, spooled: Spooled) -> None:
    """Add a record to a batch, as a document or as the outcome of a record that is refused."""
    if isinstance(found, Fault):
        batch.bad.append(failed_item(index, found.code, found.detail, field=found.field))
        return
    try:
        mapped = map_record(found.value, spooled.fields, columns=spooled.format.is_table)
    except Unmappable as error:
        batch.bad.append(failed_item(index, "invalid_document", str(error), field=error.field))
        return
    batch.notes.update(mapped.notes)
    batch.indexes.append(index)
    batch.documents.append(mapped.document)
