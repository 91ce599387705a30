"""Reads files of synonyms: the text format of Solr, Lucene and Elasticsearch, and JSON in the form of the API."""

import hashlib
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import orjson

from service.cli.failures import ERROR, Failure, Refused
from service.cli.records import BOM, Fault, Record, opened
from service.documents.reading import as_utf8, read_array, read_lines

MOST_BYTES = 8 * 1024 * 1024
"""Bytes of a file, decompressed: a request has no more."""
MOST_ENTRIES = 10_000
MOST_WORDS = 50
MOST_NAMED = 10
"""Faulty lines that an error names."""
NUMBERED = re.compile(r"/synonyms/(\d+)")
TOKEN = re.compile(r"\\.|=>|,|[^\\,=]+|[\\=]")
"""A character behind a backslash, an arrow, a comma, or other text."""


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
    """Return the entries of a file, also gzipped; those without an id get an id that is made from their words.

    Raises Failure for a file without entries or with too many, and with the lines that cannot be read: nothing of the
    file is stored then.
    """
    unit, records = _records(path)
    found = list(islice(records, MOST_ENTRIES + 1))
    if len(found) > MOST_ENTRIES:
        raise Failure(ERROR, f"{path.name}: has more than {MOST_ENTRIES} entries")
    faults = [f"{unit} {one.number}: {one.detail}" for one in found if isinstance(one, Fault)]
    entries: dict[str, Record] = {}
    for one in found:
        if isinstance(one, Fault):
            continue
        id = one.value["id"] if "id" in one.value else _made_id(one.value)
        if not isinstance(id, str) or ("id" in one.value and id in entries):
            faults.append(f"{unit} {one.number}: the id is {'repeated' if isinstance(id, str) else 'no text'}")
        else:
            entries[id] = one
    if faults:
        raise Failure(ERROR, f"{path.name}: {len(faults)} faulty", faults[:MOST_NAMED])
    if not entries:
        raise Failure(ERROR, f"{path.name}: has no synonyms")
    return Entries(
        unit, [{**one.value, "id": id} for id, one in entries.items()], [one.number for one in entries.values()]
    )


def _made_id(entry: dict[str, Any]) -> str:
    """Return an id that is made from the words of an entry: a file that is imported again replaces its own entries."""
    return hashlib.sha256(orjson.dumps([entry.get("from"), entry.get("words")])).hexdigest()[:16]


def _records(path: Path) -> tuple[str, Iterator[Record | Fault]]:
    """Return what the numbers of a file count, and its entries. Raises Failure for damaged gzip and a large file."""
    with opened(path) as stream:
        content = as_utf8(stream).read(MOST_BYTES + 1).removeprefix(BOM)
    if len(content) > MOST_BYTES:
        raise Failure(ERROR, f"{path.name}: has more than {MOST_BYTES} bytes; import it in parts")
    first = content.lstrip()[:1]
    if path.name.removesuffix(".gz").endswith(".txt") or first not in (b"{", b"["):
        return "line", _read_text(content.decode("utf-8", "surrogateescape"))
    if first == b"[":
        return "item", read_array(io.BytesIO(content))
    listed = _listed(content)
    return ("line", read_lines(io.BytesIO(content))) if listed is None else ("item", _read_list(listed))


def _read_text(text: str) -> Iterator[Record | Fault]:
    """Yield the entries of Solr's format: `a, b` for both ways, `a, b => c, d` for c and d in place of a, and of b.

    In Solr, `a => c` leaves a out; here a search for a finds both. A comma behind a backslash is a part of the word.
    """
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if re.search("[\ud800-\udfff]", line):
            yield Fault(number, "invalid_synonyms", "not UTF-8")
            continue
        sides = _sides(line)
        if len(sides) > 2 or not all(sides) or (len(sides) == 1 and len(sides[0]) < 2):
            yield Fault(number, "invalid_synonyms", "expected `word, word` or `word => word`")
        elif len(sides[-1]) > MOST_WORDS:
            yield Fault(number, "invalid_synonyms", f"has more than {MOST_WORDS} words")
        elif len(sides) == 1:
            yield Record(number, {"words": sides[0]})
        else:
            for word in sides[0]:
                if others := [other for other in sides[1] if other != word]:
                    yield Record(number, {"words": others, "from": word})


def _sides(line: str) -> list[list[str]]:
    """Return the words or phrases on each side of the arrow, each once."""
    sides = [[""]]
    for token in TOKEN.findall(line):
        if token == "=>":
            sides.append([""])
        elif token == ",":
            sides[-1].append("")
        else:
            sides[-1][-1] += token[1:] if token.startswith("\\") else token
    return [list(dict.fromkeys(word for one in side if (word := one.strip()))) for side in sides]


def _listed(content: bytes) -> list[Any] | None:
    """Return `synonyms` of a single object, as `list --json` prints it; None for other content."""
    try:
        listed = orjson.loads(content).get("synonyms")
    except orjson.JSONDecodeError:
        return None
    return listed if isinstance(listed, list) else None


def _read_list(listed: list[Any]) -> Iterator[Record | Fault]:
    for number, entry in enumerate(listed, 1):
        yield Record(number, entry) if isinstance(entry, dict) else Fault(number, "invalid_synonyms", "not an object")
