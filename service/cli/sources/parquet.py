"""Reads the rows of a Parquet file, with pyarrow, an optional dependency."""

import io
from collections.abc import Iterator
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from service.cli.sources.texts import Unreadable
from service.documents.reading import Record

ROWS = 1000
"""Rows that are decoded at a time."""


def read_parquet(content: bytes) -> Iterator[Record]:
    """Yield the rows. Raises Unreadable for a damaged file, and if pyarrow is not installed."""
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise Unreadable("Parquet needs pyarrow: pip install 'softseek[parquet]'") from error
    try:
        number = 0
        for batch in ParquetFile(io.BytesIO(content)).iter_batches(batch_size=ROWS):
            for row in batch.to_pylist():
                number += 1
                yield Record(number, {str(name): as_json(value) for name, value in row.items()})
    except (ArrowException, OSError) as error:
        raise Unreadable("not a readable Parquet file") from error


def as_json(value: Any) -> Any:
    """Return a value of a column as JSON has it. Bytes become text, a decimal number a double."""
    if isinstance(value, dict):
        return {str(name): as_json(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(inner) for inner in value]
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return value if value is None or isinstance(value, str | int | float) else str(value)
