"""A file with the copy of a searcher and its indexes, from which a new searcher starts.

It has the form of a snapshot, a tar with checksums of its members and of the whole. Making the indexes from rows takes
much longer than reading them. A searcher that starts from an older file follows the change log from there on.
"""

import os
import re
import shutil
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import structlog

from index.errors import DamagedFile
from index.storage.files import MANIFEST, make_durable_directory, read_manifest, sync_directory
from service.runtime.collection import CollectionState
from service.runtime.repeated_failures import RepeatedFailures
from service.searchers.document_part import DocumentPart, part_name
from service.snapshots.archive import ArchiveWriter, check_bytes, unpack
from service.storage.copying import copy_database
from service.storage.database import DATABASE_FILE, Database

EVERY_SECONDS = 24 * 3600.0
"""Age of the file at which a searcher writes it anew."""
WORKING = "publishing"
"""The folder of the data directory where a file is made."""
UNPACKED = "unpacking"
INDEXES = "indexes"
NAME = r"\.?[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}"
MEMBERS = re.compile(rf"{re.escape(DATABASE_FILE)}|{INDEXES}/[0-9]{{1,18}}(/{NAME}){{1,3}}")
log = structlog.get_logger()


def file_of(file: Path | None, part: DocumentPart | None) -> Path | None:
    """Return the file of a searcher with a part of the documents: each part has a file of its own."""
    if file is None or part is None or not part.count:
        return file if part is None else None
    return file.with_name(f"{file.stem}-{part.number}-of-{part.count}{file.suffix}")


def start_from(file: Path, data: Path, part: DocumentPart | None) -> None:
    """Put the contents of a file into a data directory without a database. A damaged file is not used, nor is one of
    another part of the documents.

    The database is moved first: a kill in between leaves a copy whose indexes are made anew.
    """
    folder = data / UNPACKED
    shutil.rmtree(folder, ignore_errors=True)
    if (data / DATABASE_FILE).exists() or not file.exists():
        return
    folder.mkdir(mode=0o700)
    try:
        check_bytes(file)
        if unpack(file, folder, names=MEMBERS).get("part") != part_name(part):
            raise DamagedFile("the file has another part of the documents")
        os.replace(folder / DATABASE_FILE, data / DATABASE_FILE)
        if (folder / INDEXES).is_dir():
            os.replace(folder / INDEXES, data / INDEXES)
        sync_directory(data)
        log.info("started_from_file", file=str(file))
    except (DamagedFile, OSError) as error:
        log.warning("published_file_not_used", file=str(file), reason=str(error))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Publisher:
    """Writes the file, where there is none or it is a day old. One thread calls `publish`, which no row changes."""

    def __init__(self, file: Path, data: Path, database: Database, part: DocumentPart | None) -> None:
        self._file, self._data, self._database, self._part = file, data, database, part
        self._failures = RepeatedFailures("not_published")
        self._thread: threading.Thread | None = None
        shutil.rmtree(data / WORKING, ignore_errors=True)

    @property
    def is_due(self) -> bool:
        """Whether the file is missing or old, and none is being written."""
        if self._thread is not None and self._thread.is_alive():
            return False
        try:
            return time.time() - self._file.stat().st_mtime > EVERY_SECONDS
        except OSError:
            return True

    def publish(self, collections: Iterable[CollectionState]) -> None:
        """Copy the database and the saved indexes; a thread makes the file of the copies."""
        folder = self._data / WORKING
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
        try:
            for state in collections:
                state.save()
                with state.lock:
                    if not state.behind:
                        _copy_index(state.directory, folder / INDEXES / str(state.id))
            copy_database(self._database, folder / DATABASE_FILE, lambda _done, _total: None)
        except Exception as error:
            self._failures.failed(error)
            shutil.rmtree(folder, ignore_errors=True)
            return
        self._thread = threading.Thread(target=self._write, args=(folder,), name="publisher", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Wait for the file that is being written."""
        if self._thread is not None:
            self._thread.join()

    def _write(self, folder: Path) -> None:
        target = self._file
        draft = target.with_name(f"{target.name}.{os.getpid()}.draft")
        try:
            make_durable_directory(target.parent)
            with os.fdopen(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                writer = ArchiveWriter(file, int(time.time()), names=MEMBERS)
                for path in sorted(path for path in folder.rglob("*") if path.is_file()):
                    writer.add(str(path.relative_to(folder)), path)
                writer.finish({"part": part_name(self._part)})
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, target)
            sync_directory(target.parent)
            self._failures.succeeded()
            log.info("published", file=str(target), bytes=target.stat().st_size)
        except Exception as error:
            self._failures.failed(error)
            with suppress(OSError):
                draft.unlink()
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _copy_index(directory: Path, target: Path) -> None:
    """Copy the files that a saved index names. Raises DamagedFile if one of them differs from its checksum."""
    for name in [*read_manifest(directory)["files"], MANIFEST]:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(directory / name, target / name)
