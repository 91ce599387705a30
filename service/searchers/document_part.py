"""The documents that a copy of the database has, where the documents of a collection are split over several copies."""

from dataclasses import dataclass
from pathlib import Path

from index.records import KeyKind
from index.storage.files import write_atomically
from service.runtime.first_start import OtherDatabase
from service.storage.database import DATABASE_FILE

FILE = "documents-part"
"""The file of a data directory that names the part of its copy. A directory without it has all documents."""


@dataclass(frozen=True)
class DocumentPart:
    """The documents whose row has the remainder `number` when it is divided by `count`; none if `count` is 0.

    A replaced document gets a new row, and so it may move to another part.
    """

    number: int
    count: int

    def condition(self, table: str) -> str | None:
        """Return the condition, in SQL of PostgreSQL, on the rows of a table that a copy has; None for all rows.

        Every copy with documents has all of memory, whose bounds are about all documents. Keys of memory may name
        documents of other parts.
        """
        if table not in ("documents", "keys", "values"):
            return None
        if not self.count:
            return "false"
        row = '"row"' if table == "documents" else "document_row"
        own = f"mod({row}, {self.count}) = {self.number}"
        return f"(kind = {int(KeyKind.QUERY)} OR {own})" if table == "keys" else own


WITHOUT_DOCUMENTS = DocumentPart(0, 0)


def part_name(part: DocumentPart | None) -> str:
    """Return how a file names a part; None is all documents."""
    return "all" if part is None else f"{part.number} of {part.count}"


def keep_part(directory: Path, part: DocumentPart | None) -> None:
    """Note the part of a new data directory. Raises OtherDatabase if the directory has a copy of other documents.

    A copy follows the changes of its documents alone, so it cannot become a copy of others.
    """
    wanted = part_name(part)
    path = directory / FILE
    has_copy = (directory / DATABASE_FILE).exists()
    known = path.read_text(encoding="utf-8") if path.exists() else ("all" if has_copy else wanted)
    if has_copy and known != wanted:
        raise OtherDatabase(directory, f"the part {known} of the documents", f"{wanted} needs a directory of its own")
    if part is not None:
        write_atomically(path, wanted.encode())
