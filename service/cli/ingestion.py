"""Turns the items of a source into documents to send, and keeps account of what is refused and why."""

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

import orjson

from service.cli.show import Bar
from service.cli.sources.reader import Item
from service.documents.mapping import map_record
from service.documents.metadata import Unmappable
from service.documents.reading import Fault

MAX_FAULTS = 1_000
"""Faults that are kept with their reasons; further faults are only counted. --rejects has all of them."""
MAX_NOTES = 20
REPLACED = "an id that occurs before: the last document with the id is kept"


class Ingestion:
    """The documents of a source. `lines` reads them once; the account is complete afterwards."""

    def __init__(self, items: Iterable[Item], rejects: BinaryIO | None = None) -> None:
        self._items = items
        self._rejects = rejects
        self._files: dict[str, int] = {}
        """File -> its position in the source."""
        self._sent_file = array("L")
        self._sent_number = array("Q")
        self._sent_unit = bytearray()
        """File, line or item of each document that was sent."""
        self.ids: set[str] = set()
        self.notes: Counter[str] = Counter()
        self.faults: list[dict[str, Any]] = []
        self.fault_count = 0

    @property
    def sent(self) -> int:
        """The number of documents that were sent."""
        return len(self._sent_file)

    def lines(self, bar: Bar) -> Iterator[bytes]:
        """Yield each document as a line of JSON in the form of the API."""
        for item in self._items:
            line = self._line(item)
            if line is not None:
                self._sent_file.append(self._position(item.file))
                self._sent_number.append(item.found.number)
                self._sent_unit.append(item.unit == "item")
                yield line
            bar.show(f"reading {item.file}", self.sent, None)

    def _line(self, item: Item) -> bytes | None:
        from service.documents.checking import Wrong, check_document  # here: it imports the web framework, for .3 s
        from service.documents.schemas import DocumentIn

        if isinstance(item.found, Fault):
            self._refuse(item, item.found.code, item.found.detail, item.found.field, item.found.content)
            return None
        record = item.found.value
        try:
            mapped = map_record(record, item.fields, item.fallback_id, item.columns)
        except Unmappable as error:
            self._refuse(
                item, "invalid_document", str(error), error.field, record, item.fallback_id or record.get("id")
            )
            return None
        checked = check_document(mapped.document, DocumentIn)
        if isinstance(checked, Wrong):
            self._refuse(item, "invalid_document", checked.detail, checked.field, record, mapped.document.get("id"))
            return None
        self._note((*mapped.notes, *([REPLACED] if checked.id in self.ids else [])))
        self.ids.add(checked.id)
        filled = {name: value for name, value in mapped.document.items() if value is not None and value != {}}
        return orjson.dumps(filled, option=orjson.OPT_APPEND_NEWLINE)

    def _note(self, notes: Iterable[str]) -> None:
        for note in notes:
            if note in self.notes or len(self.notes) < MAX_NOTES:
                self.notes[note] += 1

    def _refuse(
        self, item: Item, code: str, detail: str, field: str | None = None, record: Any = None, id: Any = None
    ) -> None:
        place: dict[str, int] = {item.unit: item.found.number} if item.found.number else {}
        id = id if isinstance(id, str) and id != item.file else None
        fault = {"file": item.file, **place, "id": id, "code": code, "field": field, "detail": detail}
        self._position(item.file)
        self._keep(fault, record)

    def _keep(self, fault: dict[str, Any], record: Any) -> None:
        self.fault_count += 1
        shown = {name: value for name, value in fault.items() if value is not None}
        if len(self.faults) < MAX_FAULTS:
            self.faults.append(shown)
        if self._rejects:
            written = {**shown, "record": record}
            self._rejects.write(orjson.dumps(written, default=str, option=orjson.OPT_APPEND_NEWLINE))

    def refuse_later(self, errors: Iterable[dict[str, Any]], count: int) -> None:
        """Add the records that the service refused. `count` may be more than the errors that it named."""
        named = 0
        for error in errors:
            at = error["index"]
            unit = "item" if self._sent_unit[at] else "line"
            place = {unit: self._sent_number[at]} if self._sent_number[at] else {}
            more = {name: error.get(name) for name in ("id", "code", "field", "detail")}
            self._keep({"file": list(self._files)[self._sent_file[at]], **place, **more}, None)
            named += 1
        self.fault_count += count - named

    def sorted_faults(self) -> list[dict[str, Any]]:
        """Return the faults that were kept, in the order of the source."""
        return sorted(
            self.faults, key=lambda fault: (self._files[fault["file"]], fault.get("line", fault.get("item", 0)))
        )

    def _position(self, file: str) -> int:
        return self._files.setdefault(file, len(self._files))
