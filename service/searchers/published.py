"""A file with the copy of a searcher and its indexes, from which a new searcher starts.

It has the form of a snapshot, a tar with checksums of its members and of the whole. Making the indexes from rows takes
much longer than reading them. A searcher that starts from an older file follows the change log from there on.

Several searchers may share the file. Its draft has one name, so one of them writes it at a time.
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
from index.storage.files import MANIFEST, make_durable_directory, read_manifest, sync_directory, write_atomically
from service.runtime.collection import CollectionState
from service.runtime.repeated_failures import RepeatedFailures
from service.searchers.document_part import DocumentPart, keep_part, part_name
from service.snapshots.archive import ArchiveWriter, check_bytes, unpack
from service.storage.copying import copy_database
from service.storage.database import DATABASE_FILE, SKEW, Database

EVERY_SECONDS = 24 * 3600.0
"""Age of the file at which a searcher writes it anew."""
RETRY_SECONDS = 3600.0
"""Pause after a failure: each attempt copies indexes, while changes wait."""
STALE_SECONDS = 3600.0
"""Age of a draft, after its last write, that a killed searcher has left."""
WORKING = "publishing"
"""The folder of the data directory where a file is made."""
UNPACKED = "unpacking"
UNFOLLOWED = "started-from-file"
"""The note of a data directory whose copy is of a file, and has not been compared with the database yet."""
INDEXES = "indexes"
NAME = r"\.?[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}"
MEMBERS = re.compile(rf"{re.escape(DATABASE_FILE)}|{INDEXES}/[0-9]{{1,18}}(/{NAME}){{1,3}}")
log = structlog.get_logger()


class _Ended(Exception):
    """The searcher closes, the copies are out of date, or another searcher has taken over the draft."""


def file_of(file: Path | None, part: DocumentPart | None) -> Path | None:
    """Return the file of a searcher with a part of the documents: each part has a file of its own."""
    if file is None or part is None or not part.count:
        return file if part is None else None
    return file.with_name(f"{file.stem}-{part.number}-of-{part.count}{file.suffix}")


def start_from(file: Path, data: Path, part: DocumentPart | None) -> None:
    """Put the contents of a file into a data directory without contents. A damaged file is not used, nor is one of
    another part of the documents.

    The database is moved first: a kill in between leaves a copy whose indexes are made anew. A note says that the copy
    has to be compared with the database before it answers: the file may be old, or of another database.
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
        keep_part(data, part)
        write_atomically(data / UNFOLLOWED, b"")
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
    """Writes the file, where there is none or it is a day old. One thread calls `publish`, while it changes no row."""

    def __init__(self, file: Path, data: Path, database: Database, part: DocumentPart | None) -> None:
        self._file, self._data, self._database, self._part = file, data, database, part
        self._draft = file.with_name(f"{file.name}.draft")
        self._failures = RepeatedFailures("not_published")
        self._not_before = 0.0
        self._closing = threading.Event()
        self._forgotten = threading.Event()
        """Set where the copies that are being written have content that was erased."""
        self._thread: threading.Thread | None = None
        shutil.rmtree(data / WORKING, ignore_errors=True)

    @property
    def is_due(self) -> bool:
        """Whether the file is missing or old, and no searcher writes it."""
        if (self._thread is not None and self._thread.is_alive()) or time.monotonic() < self._not_before:
            return False
        return _age(self._file) > EVERY_SECONDS and _age(self._draft) > STALE_SECONDS

    def publish(self, collections: Iterable[CollectionState]) -> None:
        """Copy the database and the saved indexes; a thread makes the file of the copies. Errors are logged."""
        folder = self._data / WORKING
        self._forgotten.clear()
        try:
            make_durable_directory(self._file.parent)
            draft = self._begun_draft()  # before the copies: where it cannot be written they are for nothing
        except OSError as error:
            self._failed(error)
            return
        try:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(mode=0o700)
            for state in collections:
                state.save()
                with state.lock:
                    if not state.behind:
                        _copy_index(state.directory, folder / INDEXES / str(state.id))
            copy_database(self._database, folder / DATABASE_FILE, self._check)
            self._thread = threading.Thread(target=self._write, args=(draft, folder), name="publisher", daemon=True)
            self._thread.start()
        except Exception as error:
            self._give_up(draft, folder, error)

    def forget(self) -> None:
        """Delete the file, which has content that was erased, and its draft. Some searcher writes it anew later.

        The draft goes first: a searcher that writes it does not publish it then, also where that is another one.
        """
        self._forgotten.set()
        for path in (self._draft, self._file):
            with suppress(OSError):
                path.unlink()

    def close(self, waits: bool = False) -> None:
        """End the writing of a file, unfinished, or wait for its end."""
        if not waits:
            self._closing.set()
        if self._thread is not None:
            self._thread.join()

    def _begun_draft(self) -> int:
        """Return the descriptor of a new draft. Raises FileExistsError if another searcher has just begun one."""
        if self._draft.exists() and _age(self._draft) > STALE_SECONDS:
            self._draft.unlink(missing_ok=True)
        return os.open(self._draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)

    def _write(self, draft: int, folder: Path) -> None:
        try:
            with os.fdopen(os.dup(draft), "wb") as file:
                writer = ArchiveWriter(file, int(time.time()), self._check, MEMBERS)
                for path in sorted(path for path in folder.rglob("*") if path.is_file()):
                    writer.add(str(path.relative_to(folder)), path)
                writer.finish({"part": part_name(self._part)})
                file.flush()
                os.fsync(file.fileno())
            if not self._owns(draft):
                raise _Ended("another searcher has taken over the draft, or deleted it")
            os.replace(self._draft, self._file)
            sync_directory(self._file.parent)
            self._failures.succeeded()
            log.info("published", file=str(self._file), bytes=self._file.stat().st_size)
        except Exception as error:
            self._give_up(draft, folder, error)
            return
        os.close(draft)
        shutil.rmtree(folder, ignore_errors=True)

    def _check(self, *_: int) -> None:
        if self._closing.is_set():
            raise _Ended("the searcher closes")
        if self._forgotten.is_set():
            raise _Ended("the copies have content that was erased")

    def _owns(self, draft: int) -> bool:
        """Return whether the draft still has its name: after a long pause, another searcher may take it for left."""
        try:
            return os.path.samestat(os.fstat(draft), os.stat(self._draft))
        except OSError:
            return False

    def _give_up(self, draft: int, folder: Path, error: Exception) -> None:
        if self._owns(draft):
            with suppress(OSError):
                self._draft.unlink()
        os.close(draft)
        shutil.rmtree(folder, ignore_errors=True)
        if not self._closing.is_set() and not isinstance(error, _Ended):
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        self._not_before = time.monotonic() + RETRY_SECONDS
        self._failures.failed(error)


def _age(path: Path) -> float:
    """Return the seconds since the last write of a file; infinity without one, and for a time ahead of the clock."""
    try:
        age = time.time() - path.stat().st_mtime
    except OSError:
        return float("inf")
    return age if age > -SKEW.total_seconds() else float("inf")


def _copy_index(directory: Path, target: Path) -> None:
    """Copy the files that a saved index names; without a sound index, none: a new searcher makes it of the rows."""
    try:
        names = [*read_manifest(directory)["files"], MANIFEST]
    except DamagedFile:
        return
    for name in names:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(directory / name, target / name)
