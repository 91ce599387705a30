"""A SQLite file system in Python: it reports every write, sync and deletion of a database to a listener.

SQLite reads and writes files through a table of C functions, the VFS (https://www.sqlite.org/vfs.html). This
module copies the table of the default VFS and replaces the functions that change files. It needs no compiler:
ctypes makes the table, in the SQLite library that Python's own `sqlite3` uses. If a Python's `sqlite3` hides
the functions of SQLite, there is no such table, and `find_library` returns None.
"""

import _sqlite3
import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import POINTER, c_char_p, c_int, c_int64, c_void_p
from functools import lru_cache
from typing import Any, Protocol

OK = 0
OPEN_CREATE = 0x4
NAME = b"softseek-faults"


class Listener(Protocol):
    """Hears of each change before SQLite makes it. A returned number is a SQLite error code: the change is not made."""

    def create(self, path: str) -> int:
        """A new file."""

    def write(self, path: str, offset: int, data: bytes) -> int:
        """Bytes at an offset."""

    def truncate(self, path: str, size: int) -> int:
        """A new size."""

    def sync(self, path: str) -> int:
        """The bytes of a file become durable; the entries of its folder too, if the file is new (SQLite does both)."""

    def delete(self, path: str, durably: bool) -> int:
        """A deleted file; durably: the folder is synced afterwards."""


XOpen = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_int, c_void_p)
"""The name is an address: SQLite keeps it for as long as the file is open, so it must not be the address of a copy."""
XDelete = ctypes.CFUNCTYPE(c_int, c_void_p, c_char_p, c_int)
XWrite = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_int64)
XTruncate = ctypes.CFUNCTYPE(c_int, c_void_p, c_int64)
XSync = ctypes.CFUNCTYPE(c_int, c_void_p, c_int)


class Vfs(ctypes.Structure):
    """struct sqlite3_vfs. Functions that are not replaced are plain addresses."""

    _fields_ = [
        ("iVersion", c_int), ("szOsFile", c_int), ("mxPathname", c_int), ("pNext", c_void_p), ("zName", c_char_p),
        ("pAppData", c_void_p), ("xOpen", c_void_p), ("xDelete", c_void_p), ("xAccess", c_void_p),
        ("xFullPathname", c_void_p), ("xDlOpen", c_void_p), ("xDlError", c_void_p), ("xDlSym", c_void_p),
        ("xDlClose", c_void_p), ("xRandomness", c_void_p), ("xSleep", c_void_p), ("xCurrentTime", c_void_p),
        ("xGetLastError", c_void_p), ("xCurrentTimeInt64", c_void_p), ("xSetSystemCall", c_void_p),
        ("xGetSystemCall", c_void_p), ("xNextSystemCall", c_void_p),
    ]  # fmt: skip


class Methods(ctypes.Structure):
    """struct sqlite3_io_methods: the functions of an open file."""

    _fields_ = [
        ("iVersion", c_int), ("xClose", c_void_p), ("xRead", c_void_p), ("xWrite", c_void_p), ("xTruncate", c_void_p),
        ("xSync", c_void_p), ("xFileSize", c_void_p), ("xLock", c_void_p), ("xUnlock", c_void_p),
        ("xCheckReservedLock", c_void_p), ("xFileControl", c_void_p), ("xSectorSize", c_void_p),
        ("xDeviceCharacteristics", c_void_p), ("xShmMap", c_void_p), ("xShmLock", c_void_p),
        ("xShmBarrier", c_void_p), ("xShmUnmap", c_void_p), ("xFetch", c_void_p), ("xUnfetch", c_void_p),
    ]  # fmt: skip


class File(ctypes.Structure):
    """struct sqlite3_file: it begins with the address of its functions."""

    _fields_ = [("pMethods", POINTER(Methods))]


@lru_cache(1)
def find_library() -> Any:
    """Return the SQLite library of Python's `sqlite3`, or None if its functions cannot be called from outside."""
    path = getattr(_sqlite3, "__file__", None)
    library = ctypes.CDLL(path)  # a handle also finds the functions of the libraries that it depends on
    if not hasattr(library, "sqlite3_vfs_find") or not hasattr(library, "sqlite3_vfs_register"):
        return None
    library.sqlite3_vfs_find.restype = POINTER(Vfs)
    library.sqlite3_vfs_find.argtypes = [c_char_p]
    library.sqlite3_vfs_register.argtypes = [POINTER(Vfs), c_int]
    return library


class Shim:
    """The copied VFS. It lives as long as the process, because an open file keeps the addresses of its functions."""

    def __init__(self, library: Any) -> None:
        self.library = library
        self.listener: Listener | None = None
        self.original = library.sqlite3_vfs_find(None)
        self._paths: dict[int, str] = {}
        self._new: set[str] = set()
        self._methods: dict[int, tuple[Methods, Methods]] = {}
        """Address of the original functions -> the original functions, and the copy with the functions below."""
        self._open, self._delete = XOpen(self._opened), XDelete(self._deleted)
        self._write, self._truncate, self._sync = XWrite(self._written), XTruncate(self._truncated), XSync(self._synced)
        self.vfs = Vfs.from_buffer_copy(self.original.contents)
        self.vfs.zName, self.vfs.pNext = NAME, None
        self.vfs.xOpen, self.vfs.xDelete = _address(self._open), _address(self._delete)

    def _opened(self, vfs: int, name: int | None, file: int, flags: int, out_flags: int) -> int:
        path = None if name is None else os.fsdecode(ctypes.string_at(name))
        is_new = path is not None and bool(flags & OPEN_CREATE) and not os.path.exists(path)
        if is_new and path is not None and (code := self._heard(lambda one: one.create(path))):
            ctypes.cast(file, POINTER(c_void_p)).contents.value = None  # SQLite does not close a file without functions
            return code
        code = XOpen(self.original.contents.xOpen)(vfs, name, file, flags, out_flags)
        if code == OK and path is not None:
            self._paths[file] = path
            if is_new:
                self._new.add(path)
            self._replace_methods(ctypes.cast(file, POINTER(File)).contents)
        return code

    def _replace_methods(self, file: File) -> None:
        address = ctypes.addressof(file.pMethods.contents)
        if address not in self._methods:
            original = file.pMethods.contents
            copy = Methods.from_buffer_copy(original)
            copy.xWrite, copy.xTruncate = _address(self._write), _address(self._truncate)
            copy.xSync = _address(self._sync)
            copy.xFetch = copy.xUnfetch = None
            copy.iVersion = min(copy.iVersion, 2)  # version 3 adds memory maps, which would write past this shim
            self._methods[address] = original, copy
            self._methods[ctypes.addressof(copy)] = original, copy
        file.pMethods = ctypes.pointer(self._methods[address][1])

    def _original(self, file: int) -> Methods:
        return self._methods[ctypes.addressof(ctypes.cast(file, POINTER(File)).contents.pMethods.contents)][0]

    def _written(self, file: int, data: int, size: int, offset: int) -> int:
        path, content = self._paths[file], ctypes.string_at(data, size)
        code = self._heard(lambda one: one.write(path, offset, content))
        return code or XWrite(self._original(file).xWrite)(file, data, size, offset)

    def _truncated(self, file: int, size: int) -> int:
        path = self._paths[file]
        code = self._heard(lambda one: one.truncate(path, size))
        return code or XTruncate(self._original(file).xTruncate)(file, size)

    def _synced(self, file: int, flags: int) -> int:
        path = self._paths[file]
        code = self._heard(lambda one: one.sync(path))
        return code or XSync(self._original(file).xSync)(file, flags)

    def _deleted(self, vfs: int, name: bytes, durably: int) -> int:
        path = os.fsdecode(name)
        if os.path.exists(path) and (code := self._heard(lambda one: one.delete(path, bool(durably)))):
            return code
        return XDelete(self.original.contents.xDelete)(vfs, name, durably)

    def _heard(self, call: Callable[[Listener], int]) -> int:
        return OK if self.listener is None else call(self.listener)


@lru_cache(1)
def _shim() -> Shim:
    return Shim(find_library())


@contextmanager
def heard(listener: Listener) -> Iterator[None]:
    """Report the changes of every database that is opened in the block. The databases may be closed after it."""
    shim = _shim()
    shim.listener = listener
    shim.library.sqlite3_vfs_register(ctypes.byref(shim.vfs), 1)
    try:
        yield
    finally:
        shim.library.sqlite3_vfs_register(shim.original, 1)
        shim.listener = None


def _address(function: Any) -> int | None:
    return ctypes.cast(function, c_void_p).value
