"""Lists the files of a folder that are documents."""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from service.cli.sources.formats import SourceFormat, format_of_name


@dataclass(frozen=True)
class Walk:
    """Which files to list."""

    kind: SourceFormat = SourceFormat.AUTO
    globs: Sequence[str] = ()
    """Patterns of paths relative to the folder; `*` also matches `/`. Without patterns the type of a file decides."""
    excluded: Sequence[Path] = ()


def files_of(folder: Path, walk: Walk, skipped: Counter[str], unreadable: list[OSError]) -> Iterator[Path]:
    """Yield the files of a folder and its folders, in the order of their paths, and count the others by suffix.

    Hidden files and folders are left out, and folders that are links are not followed. A link to a file that does not
    exist is yielded, because reading it fails. unreadable: gets the errors of folders that could not be listed.
    """
    excluded = {path.resolve() for path in walk.excluded}
    for parent, folders, names in os.walk(folder, onerror=unreadable.append):
        inside = Path(parent)
        folders[:] = sorted(
            name for name in folders if not name.startswith(".") and (inside / name).resolve() not in excluded
        )
        for name in sorted(names):
            path = inside / name
            is_file = path.is_file() or (path.is_symlink() and not path.exists())
            if name.startswith(".") or not is_file or path.resolve() in excluded:
                continue
            if is_wanted(path.relative_to(folder).as_posix(), walk):
                yield path
            elif not walk.globs:
                skipped[path.suffix or "without a suffix"] += 1


def is_wanted(name: str, walk: Walk) -> bool:
    """Return whether a file is listed, by its path relative to the folder."""
    if walk.globs:
        return any(fnmatchcase(name, glob) or fnmatchcase(name, glob.removeprefix("**/")) for glob in walk.globs)
    kind = format_of_name(name)
    return kind is not None if walk.kind is SourceFormat.AUTO else kind is alias(walk.kind)


def alias(kind: SourceFormat) -> SourceFormat:
    """Return the format that a suffix gives for this format: jsonl is ndjson."""
    return SourceFormat.NDJSON if kind is SourceFormat.JSONL else kind
