"""The documents that a copy of the database has, where the documents of a collection are split over several copies."""

from dataclasses import dataclass

from index.records import KeyKind


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
