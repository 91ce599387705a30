"""Writes content as lines of JSON: a header, records, and a last line with their number and sha256."""

import hashlib
from collections.abc import Collection, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import orjson
from sqlalchemy import Connection

from index.errors import DamagedFile
from index.storage.files import MANIFEST, check_files
from service.exports.record_repository import END, FILES, FORMAT, HEADER, TYPES, as_text
from service.exports.repository import stored_rows
from service.runtime.model_repository import model_files
from service.runtime.runtime import Runtime
from service.storage.database import NEWEST_REVISION, now

PART_BYTES = 256 * 1024


def export_parts(runtime: Runtime, names: Collection[str] | None = None) -> Iterator[bytes]:
    """Yield the lines of an export in parts of about PART_BYTES. All lines are of one state of the database.

    names: of the collections that are exported, with their aliases; None: of all.
    """
    digest, count, part = hashlib.sha256(), 0, bytearray()
    with runtime.database.read() as connection:
        for record in _records(runtime, connection, names):
            line = orjson.dumps(record) + b"\n"
            digest.update(line)
            count += 1
            part += line
            if len(part) >= PART_BYTES:
                yield bytes(part)
                part.clear()
    end = {"type": END, "lines": count, "sha256": digest.hexdigest()}
    yield bytes(part) + orjson.dumps(end) + b"\n"


def _records(runtime: Runtime, connection: Connection, names: Collection[str] | None) -> Iterator[dict[str, Any]]:
    """Yield the header and every record. A record refers to earlier records only."""
    encoder = {"model": Path(runtime.settings.encoder).name, "fingerprint": runtime.encoder.fingerprint}
    header = {"format": FORMAT, "softseek": version("softseek"), "schema": NEWEST_REVISION, "made_at": now()}
    yield {"type": HEADER, **header, "encoder": encoder}
    for kind in TYPES.values():
        for row in stored_rows(connection, kind, names):
            record = kind.encoded(row)
            yield record | {FILES: _files(connection, row)} if kind.name == "model" else record


def _files(connection: Connection, row: Mapping[str, Any]) -> dict[str, str]:
    """Return the files of a model in base64; none for version 0, and for a model whose files are damaged."""
    files = model_files(connection, row["collection_id"], row["version"])
    try:
        named = check_files(files)["files"] if files else {}
    except DamagedFile:
        return {}
    return {name: as_text(files[name]) for name in (*named, MANIFEST) if name in files}
