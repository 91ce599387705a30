"""Records every change of a data directory: of SQLite by its VFS, of other files at each call of `os`.

Libraries write some files themselves: faiss, tantivy and numpy. Their bytes are read at the next call of `os` that
syncs, renames, makes or deletes a name, and at each answer.
"""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from errno import ENOSPC
from pathlib import Path
from typing import Any
from unittest.mock import patch

from service.snapshots.stored import WORKING
from service.storage.database import RESTORING
from tests.faults.disk import Step, parent
from tests.faults.sqlite_vfs import heard

DATABASE = ("softseek.db", "softseek.db-wal", "softseek.db-shm", "softseek.db-journal")
FULL = 13
"""SQLITE_FULL"""
IO_ERROR = {"write": 778, "sync": 1034, "truncate": 1546, "create": 14, "delete": 2570}
"""SQLITE_IOERR_WRITE, _FSYNC, _TRUNCATE, SQLITE_CANTOPEN, SQLITE_IOERR_DELETE"""
OS_CALLS = ("fsync", "replace", "rename", "unlink", "remove", "rmdir", "mkdir")

Hook = Callable[[str, str], int]
"""Kind and path of a change that is about to be made -> 0, or an errno: the change fails with it."""


class Recorder:
    """The steps of a data directory, in order. A hook may let changes fail."""

    def __init__(self, data: Path, hook: Hook | None = None) -> None:
        self.data = data.resolve()
        self.steps: list[Step] = []
        self.hook = hook
        self.syncing_child = ""
        """The folder where a process of its own writes and syncs: what is found there counts as synced."""
        self._lock = threading.RLock()
        self._seen: dict[str, tuple[int, int, bytes] | None] = {}

    # --- SQLite ---

    def create(self, path: str) -> int:
        return self._sql(Step("create", self._name(path)))

    def write(self, path: str, offset: int, data: bytes) -> int:
        return self._sql(Step("write", self._name(path), offset, data))

    def truncate(self, path: str, size: int) -> int:
        return self._sql(Step("truncate", self._name(path), size))

    def sync(self, path: str) -> int:
        return self._sql(Step("sync", self._name(path))) or self._sql(Step("sync_folder", parent(self._name(path))))

    def delete(self, path: str, durably: bool) -> int:
        code = self._sql(Step("delete", self._name(path)))
        return code or (self._sql(Step("sync_folder", parent(self._name(path)))) if durably else 0)

    def _sql(self, step: Step) -> int:
        if self.hook is not None and step.kind in IO_ERROR and (number := self.hook(step.kind, step.path)):
            return FULL if number == ENOSPC and step.kind != "sync" else IO_ERROR[step.kind]
        if step.path in DATABASE or step.kind == "sync_folder":
            self.steps.append(step)
        else:  # the copy of a snapshot, a file beside the database
            self.look()
        return 0

    # --- other files ---

    def answer(self, number: int) -> None:
        """Record that the service has acknowledged a request."""
        self.look()
        self.steps.append(Step("answer", offset=number))

    def begin(self) -> None:
        """Record the files before the first change, as durable."""
        self.look()
        for name in DATABASE:
            if (self.data / name).exists():
                self.steps += [Step("create", name), Step("replace", name, data=(self.data / name).read_bytes())]
        made = [step for step in self.steps if step.kind in ("create", "mkdir")]
        self.steps += [Step("sync", step.path) for step in made if step.kind == "create"]
        self.steps += [Step("sync_folder", path) for path in sorted({parent(step.path) for step in made})]

    def look(self) -> None:
        """Record what has changed in the files beside the database since the last look."""
        with self._lock:
            now = self._files()
            for path in sorted(set(self._seen) - set(now), reverse=True):
                self.steps.append(Step("rmdir" if self._seen[path] is None else "delete", path))
            for path in sorted(now):
                self._note(path, self._seen.get(path, ()), now[path])
            self._seen = now

    def _note(self, path: str, before: Any, after: tuple[int, int, bytes] | None) -> None:
        if before == () or (before is None) != (after is None):
            self.steps.append(Step("mkdir" if after is None else "create", path))
        if after is not None and (not before or before[2] != after[2]):
            self.steps.append(_written(path, before[2] if before else b"", after[2]))
        if self.syncing_child and path.startswith(self.syncing_child) and before != after:
            self.steps += [Step("sync", path)] if after is not None else []
            self.steps.append(Step("sync_folder", parent(path)))

    def _files(self) -> dict[str, tuple[int, int, bytes] | None]:
        found: dict[str, tuple[int, int, bytes] | None] = {}
        for folder, folders, files in os.walk(self.data):
            here = os.path.relpath(folder, self.data)
            for name in folders:
                found[os.path.normpath(os.path.join(here, name))] = None
            for name in files:
                path = os.path.normpath(os.path.join(here, name))
                if path not in DATABASE and (content := self._content(path)) is not None:
                    found[path] = content
        return found

    def _content(self, path: str) -> tuple[int, int, bytes] | None:
        try:
            facts = os.stat(self.data / path)
            before = self._seen.get(path)
            rewritten = path.endswith(".f32") or WORKING in path  # perhaps within the resolution of the clock
            if before and before[:2] == (facts.st_size, facts.st_mtime_ns) and not rewritten:
                return before
            return facts.st_size, facts.st_mtime_ns, (self.data / path).read_bytes()
        except FileNotFoundError:  # another thread has deleted it
            return None

    def _name(self, path: str) -> str:
        return os.path.relpath(path, self.data)

    def _is_inside(self, path: str) -> bool:
        return path == str(self.data) or path.startswith(f"{self.data}{os.sep}")

    # --- calls of os ---

    def wrapped(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function of `os` that also records its change."""

        def recorded(*arguments: Any, **options: Any) -> Any:
            path = _path_of(name, arguments, options)
            if path is None or not self._is_inside(path):
                return call(*arguments, **options)
            with self._lock:
                self.look()
                if self.hook is not None and (number := self.hook(name, self._name(path))):
                    raise OSError(number, os.strerror(number), path)
                result = call(*arguments, **options)
                self._after(name, path, arguments)
                return result

        return recorded

    def _after(self, name: str, path: str, arguments: Any) -> None:
        inside = self._name(path)
        if name == "fsync":
            is_folder = os.path.isdir(path)
            self.steps.append(Step("sync_folder" if is_folder else "sync", "" if inside == "." else inside))
        elif name in ("replace", "rename"):
            target = self._name(os.path.abspath(os.fspath(arguments[1])))
            self.steps.append(Step("rename", inside, target=target))
            for known in [one for one in self._seen if one == inside or one.startswith(f"{inside}/")]:
                self._seen[target + known[len(inside) :]] = self._seen.pop(known)
        else:
            self.look()


def _written(path: str, before: bytes, after: bytes) -> Step:
    """Return the step that changes the bytes of a file. Files of snapshots are written in parts, at their ends."""
    if (WORKING in path or RESTORING in path) and after.startswith(before):
        return Step("write", path, len(before), after[len(before) :])
    return Step("replace", path, data=after)


def _path_of(name: str, arguments: Any, options: Any) -> str | None:
    """Return the path that a call of `os` changes."""
    first = arguments[0]
    if name == "fsync":
        return os.readlink(f"/proc/self/fd/{first}").removesuffix(" (deleted)")
    folder = options.get("dir_fd")
    if folder is not None:
        return os.path.join(os.readlink(f"/proc/self/fd/{folder}"), os.fsdecode(first))
    return os.path.abspath(os.fsdecode(first))


@contextmanager
def recorded(data: Path, hook: Hook | None = None) -> Iterator[Recorder]:
    """Yield a recorder of the changes of this data directory in the block. It has recorded the files before them."""
    data.parent.mkdir(parents=True, exist_ok=True)
    recorder = Recorder(data, hook)
    recorder.begin()
    recorder.steps.append(Step("answer"))
    with ExitStack() as stack:
        for name in OS_CALLS:
            stack.enter_context(patch.object(os, name, recorder.wrapped(name, getattr(os, name))))
        stack.enter_context(heard(recorder))
        yield recorder
        recorder.look()
