"""A disk in memory that is made from recorded steps, as a killed process or a power cut leaves it.

After a kill every step is on the disk. After a power cut a change is surely there only if it was synced afterwards:
bytes by an fsync of the file, names by an fsync of the folder. Bytes that were not synced are there, missing or torn,
each write by itself. Names that were not synced are missing from some change of the folder on.
"""

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

SECTOR = 512
"""Bytes that a disk writes as a whole."""


@dataclass(frozen=True)
class Step:
    """A change of a file or folder. Paths are relative to the data directory.

    kind: `create`, `write`, `truncate`, `replace` (all bytes of a file at once), `sync`, `rename`, `delete`, `mkdir`,
    `rmdir`, `sync_folder`; or `answer`: the service has acknowledged the request with the number `offset`; or `end`.
    """

    kind: str
    path: str = ""
    offset: int = 0
    data: bytes = b""
    target: str = ""

    @property
    def is_change(self) -> bool:
        """Whether the step changes the disk."""
        return self.kind != "answer"


@dataclass(eq=False)
class Content:
    """The bytes of a file: those that are durable, those that a reader sees, and the steps between."""

    durable: bytes = b""
    current: bytearray = field(default_factory=bytearray)
    waiting: list[Step] = field(default_factory=list)

    def change(self, step: Step) -> None:
        """Make a change that is not durable."""
        change(self.current, step)
        self.waiting.append(step)

    def sync(self) -> None:
        """Make all changes durable."""
        self.durable, self.waiting = bytes(self.current), []

    def after_power_cut(self, chance: random.Random) -> bytes:
        """Return the bytes after a power cut: each change that was not synced is there, missing or torn."""
        found = bytearray(self.durable)
        for step in self.waiting:
            fate = chance.choice(("there", "missing", "torn"))
            if fate == "there":
                change(found, step)
            elif fate == "torn" and step.kind == "write":
                kept = chance.randrange(0, len(step.data) + 1, SECTOR)
                change(found, Step("write", step.path, step.offset, step.data[:kept]))
        return bytes(found)


Names = dict[str, Content | None]
"""Path -> content of a file, None for a folder."""


class Disk:
    """The files of a data directory."""

    def __init__(self) -> None:
        self.names: Names = {}
        self._durable: Names = {}
        self._waiting: list[tuple[set[str], Step, Content | None]] = []
        """Changes of names that are not durable: the folders that they change, the step, and the content."""

    def apply(self, step: Step) -> None:
        """Make the change of a step."""
        if step.kind in ("write", "truncate", "replace"):
            self._content(step.path).change(step)
        elif step.kind == "sync":
            self._content(step.path).sync()
        elif step.kind == "sync_folder":
            self._sync_folder(step.path)
        elif step.is_change and step.kind != "end":
            content = Content() if step.kind == "create" else self.names.get(step.path)
            folders = {parent(path) for path in (step.path, step.target) if path}
            _rename(self.names, step, content)
            self._waiting.append((folders, step, content))

    def image(self) -> dict[str, bytes | None]:
        """Return path -> bytes after a kill; None for a folder."""
        return {path: None if content is None else bytes(content.current) for path, content in self.names.items()}

    def image_after_power_cut(self, chance: random.Random) -> dict[str, bytes | None]:
        """Return path -> bytes after a power cut; None for a folder. A file whose folder is missing is missing."""
        names, lost = dict(self._durable), set()
        for folders, step, content in self._waiting:
            if folders & lost or chance.random() < 0.3:
                lost |= folders
            else:
                _rename(names, step, content)
        reached = {path: content for path, content in names.items() if _is_reached(path, names)}
        return {path: content and content.after_power_cut(chance) for path, content in reached.items()}

    def _content(self, path: str) -> Content:
        content = self.names.get(path)
        assert content is not None, f"{path} is not a file"
        return content

    def _sync_folder(self, folder: str) -> None:
        """Make the changes of a folder's names durable; also every earlier change that they follow from."""
        kept = []
        for folders, step, content in self._waiting:
            if folder in folders:
                _rename(self._durable, step, content)
            else:
                kept.append((folders, step, content))
        self._waiting = kept


def parent(path: str) -> str:
    """Return the folder of a path, empty for the data directory."""
    folder = str(PurePosixPath(path).parent)
    return "" if folder == "." else folder


def written(image: dict[str, bytes | None], directory: Path, only: Iterable[str] | None = None) -> Path:
    """Write an image, or only some of its files, to a directory; return the directory."""
    directory.mkdir(parents=True, exist_ok=True)
    for path in sorted(image if only is None else set(only) & set(image)):
        content, target = image[path], directory / path
        if content is None:
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
    return directory


def _is_reached(path: str, names: Names) -> bool:
    folder = parent(path)
    return not folder or (names.get(folder, b"") is None and _is_reached(folder, names))


def _rename(names: Names, step: Step, content: Content | None) -> None:
    if step.kind in ("create", "mkdir"):
        names[step.path] = content if step.kind == "create" else None
    elif step.kind == "rename":
        for path in [path for path in names if path == step.path or path.startswith(f"{step.path}/")]:
            names[step.target + path[len(step.path) :]] = names.pop(path)
    else:
        names.pop(step.path, None)


def change(content: bytearray, step: Step) -> None:
    """Make the change of a write, a truncation or a replacement to the bytes of a file."""
    if step.kind == "replace":
        content[:] = step.data
    elif step.kind == "truncate":
        del content[step.offset :]
    else:
        content.extend(b"\0" * max(0, step.offset - len(content)))
        content[step.offset : step.offset + len(step.data)] = step.data
