"""Reads files of synonyms: the text format of Solr, Lucene and Elasticsearch, and JSON in the form of the API."""

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from service.cli.failures import ERROR, Failure, Refused
from service.cli.judgment_files import open_lines
from service.cli.records import BOM, Fault, Record, head_of, is_table, read_objects, unit_of
from service.documents.reading import MAX_RECORD_BYTES

MOST_NAMED = 10
"""Faulty lines that an error names."""
NUMBERED = re.compile(r"/synonyms/(\d+)")
ARROW, COMMA = re.compile(r"(?<!\\)=>"), re.compile(r"(?<!\\),")


@dataclass(frozen=True)
class Entries:
    """The entries of a file, with ids, and the number of the line or item of each."""

    unit: str
    entries: list[dict[str, Any]]
    numbers: list[int]

    def placed(self, refused: Refused) -> Failure:
        """Return the error of the service with lines or items of the file in place of the numbers of entries."""
        first, *more = refused.lines
        return Failure(ERROR, first, [NUMBERED.sub(self._place, one) for one in more])

    def _place(self, found: re.Match[str]) -> str:
        number = int(found[1])
        return f"{self.unit} {self.numbers[number]}" if number < len(self.numbers) else found[0]


def read_synonyms(path: Path) -> Entries:
    """Return the entries of a file; those without an id get one that depends on their words alone.

    Raises Failure with the lines that cannot be read: nothing of the file is stored then.
    """
    is_text = is_table(path)
    unit = "line" if is_text else "item" if _listed(path) is not None else unit_of(path)
    found = list(_read_text(open_lines(path)) if is_text else _read_json(path))
    faults = [f"{unit} {one.number}: {one.detail}" for one in found if isinstance(one, Fault)]
    if faults:
        raise Failure(ERROR, f"{path.name}: {len(faults)} faulty", faults[:MOST_NAMED])
    records = {_id(one.value): one for one in found if isinstance(one, Record)}
    entries = [{**one.value, "id": id} for id, one in records.items()]
    return Entries(unit, entries, [one.number for one in records.values()])


def _id(entry: dict[str, Any]) -> Any:
    """Return the id of an entry, or one of its words: a file that is imported again replaces its own entries."""
    if "id" in entry:
        return entry["id"]
    text = orjson.dumps([entry.get("from"), entry.get("words")])
    return hashlib.sha256(text).hexdigest()[:16]


def _read_text(lines: Iterable[str]) -> Iterator[Record | Fault]:
    """Yield the entries of Solr's format: `a, b` for both ways, `a, b => c, d` for c and d in place of a, and of b.

    In Solr, `a => c` leaves a out; here a search for a finds both. A comma behind a backslash is a part of the word.
    """
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if re.search("[\ud800-\udfff]", line):
            yield Fault(number, "invalid_synonyms", "not UTF-8")
            continue
        sides = [_words(side) for side in ARROW.split(line)]
        if len(sides) > 2 or not all(sides) or (len(sides) == 1 and len(sides[0]) < 2):
            yield Fault(number, "invalid_synonyms", "expected `word, word` or `word => word`")
        elif len(sides) == 1:
            yield Record(number, {"words": sides[0]})
        else:
            for word in sides[0]:
                if others := [other for other in sides[1] if other != word]:
                    yield Record(number, {"words": others, "from": word})


def _words(side: str) -> list[str]:
    """Return the words or phrases between commas, each once."""
    words = (re.sub(r"\\(.)", r"\1", one).strip() for one in COMMA.split(side))
    return list(dict.fromkeys(word for word in words if word))


def _read_json(path: Path) -> Iterator[Record | Fault]:
    """Yield the objects of lines of JSON or of an array, or those in `synonyms`, as `list --json` prints them."""
    listed = _listed(path)
    if listed is None:
        yield from read_objects(path)
        return
    for number, entry in enumerate(listed, 1):
        yield Record(number, entry) if isinstance(entry, dict) else Fault(number, "invalid_synonyms", "not an object")


def _listed(path: Path) -> list[Any] | None:
    """Return `synonyms` of a file that is a single object, None for another file."""
    if path.stat().st_size > MAX_RECORD_BYTES or not head_of(path).removeprefix(BOM).lstrip().startswith(b"{"):
        return None
    try:
        whole = orjson.loads(path.read_bytes().removeprefix(BOM))
    except orjson.JSONDecodeError:
        return None
    listed = whole.get("synonyms")
    return listed if isinstance(listed, list) else None
