"""Gathers the docstrings of Python's standard library from the running interpreter, as a demonstration corpus.

The modules are imported by `gather_documents`, not when this file is imported.
"""

import contextlib
import importlib
import inspect
import io
import sys
import types
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

MIN_TEXT = 40
MAX_TEXT = 4000
MAX_TITLE = 120

# fmt: off
EXCLUDED = frozenset([
    # These open windows, print or change the terminal on import, or are missing from many Linux builds.
    "antigravity", "curses", "ensurepip", "idlelib", "lib2to3", "readline", "rlcompleter", "this", "tkinter", "turtle",
    "turtledemo",
    # These were removed after Python 3.11, so that links to their pages would be broken.
    "aifc", "asynchat", "asyncore", "audioop", "cgi", "cgitb", "chunk", "crypt", "distutils", "imghdr", "imp",
    "mailcap", "msilib", "nis", "nntplib", "ossaudiodev", "pipes", "smtpd", "sndhdr", "spwd", "sunau", "telnetlib",
    "uu", "xdrlib",
    # These are internals, other platforms' modules, or tools for the interpreter's own developers.
    "bdb", "genericpath", "msvcrt", "nt", "ntpath", "nturl2path", "opcode", "pdb", "pickletools", "posix", "posixpath",
    "pydoc_data", "pyexpat", "sre_compile", "sre_constants", "sre_parse", "symtable", "winreg", "winsound", "zipimport",
    # These are specialist modules of many small parts. Without them the corpus stays quick to index.
    "codeop", "compileall", "imaplib", "mailbox", "modulefinder", "optparse", "pstats", "py_compile", "pyclbr", "site",
    "sqlite3", "tabnanny", "trace", "venv", "wsgiref", "xmlrpc",
])

# Submodules in the library reference. Other submodules are implementation details: their packages re-export them.
SUBMODULES = frozenset([
    "collections.abc", "concurrent.futures", "email.encoders", "email.generator", "email.header", "email.message",
    "email.mime.application", "email.mime.audio", "email.mime.base", "email.mime.image", "email.mime.multipart",
    "email.mime.text", "email.parser", "email.utils", "html.entities", "html.parser", "http.client", "http.cookies",
    "http.server", "importlib.metadata", "importlib.resources", "importlib.util", "json.tool", "logging.config",
    "logging.handlers", "multiprocessing.pool", "multiprocessing.shared_memory", "os.path", "unittest.mock",
    "urllib.error", "urllib.parse", "urllib.request", "urllib.robotparser", "xml.dom", "xml.dom.minidom",
    "xml.etree.ElementTree", "xml.sax", "xml.sax.handler", "xml.sax.saxutils",
])
# fmt: on

# Modules whose functions have defaults that depend on the installation of the interpreter.
INSTALLATION_MODULES = frozenset(["platform", "sysconfig"])

# Modules whose page in the library reference has a different name.
PAGES = {
    "cProfile": "profile",
    "encodings": "codecs",
    "importlib.util": "importlib",
    "json.tool": "json",
    "multiprocessing.pool": "multiprocessing",
    "xml.sax.saxutils": "xml.sax.utils",
    **{name: "email.mime" for name in SUBMODULES if name.startswith("email.mime.")},
}


class Entry(NamedTuple):
    """A documented object: its public name, its kind, and its module."""

    qualified_name: str
    kind: str
    value: Any
    module: str

    @property
    def package(self) -> str:
        """The top-level module of the object."""
        return self.module.partition(".")[0]


def gather_documents() -> list[dict[str, Any]]:
    """Return a document for each documented public object of the standard library, sorted by id."""
    modules = _import_all(_module_names())
    # A text that occurs several times in a package is kept under its shortest name: random.choice instead of
    # random.Random.choice, str.expandtabs instead of bytearray.expandtabs.
    entries = sorted(_entries(modules), key=lambda entry: (len(entry.qualified_name), entry.qualified_name))
    documents: dict[tuple[str, str], dict[str, Any]] = {}
    for entry in entries:
        text = _own_docstring(entry.value)
        if len(text) >= MIN_TEXT:
            documents.setdefault((entry.package, text), _document(entry, text))
    return sorted(documents.values(), key=lambda document: str(document["id"]))


def _module_names() -> list[str]:
    """Return the dotted names of the public modules to read, in a fixed order."""
    top_level = {name for name in sys.stdlib_module_names if not name.startswith("_")}
    return sorted((top_level - EXCLUDED) | SUBMODULES)


def _import_all(names: list[str]) -> dict[str, types.ModuleType]:
    """Import the named modules; leave out modules that this build does not have."""
    modules: dict[str, types.ModuleType] = {}
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        # Deprecated modules warn on import.
        warnings.simplefilter("ignore")
        for name in names:
            # An optional module may raise any error, and some modules exit if a dependency is missing.
            with contextlib.suppress(Exception, SystemExit):
                modules[name] = importlib.import_module(name)
    return modules


def _entries(modules: dict[str, types.ModuleType]) -> Iterator[Entry]:
    """Yield the modules, then each of their classes and functions once, then the methods of the classes."""
    for name, module in modules.items():
        yield Entry(name, "module", module, name)
    seen: set[int] = set()
    classes: list[Entry] = []
    for _, module_name, name, value in sorted(_members(modules), key=lambda member: member[:3]):
        if id(value) in seen:
            continue
        seen.add(id(value))
        is_class = inspect.isclass(value)
        entry = Entry(f"{module_name}.{name}", "class" if is_class else "function", value, module_name)
        yield entry
        if is_class:
            classes.append(entry)
    # Methods come last, because a class may keep a public function as a method: logging.Formatter has time.localtime.
    for entry in classes:
        yield from _methods(entry, seen)


def _members(modules: dict[str, types.ModuleType]) -> Iterator[tuple[int, str, str, Any]]:
    """Yield the public classes and functions of each module, with a lower rank for a better module (`_rank`)."""
    for module_name, module in modules.items():
        exported = getattr(module, "__all__", None)
        for name in sorted(exported if exported is not None else vars(module)):
            value = getattr(module, name, None)
            if name.startswith("_") or not (inspect.isclass(value) or inspect.isroutine(value)):
                continue
            home = getattr(value, "__module__", None)
            # If another public module defines the object, this name is a copy.
            if home != module_name and home in modules and module_name != "builtins":
                continue
            yield _rank(module_name, name, value, exported is not None), module_name, name, value


def _rank(module_name: str, name: str, value: Any, is_exported: bool) -> int:
    """Return the rank of a module for an object: 0 for the defining module, higher for copies and aliases."""
    is_home = module_name == "builtins" or getattr(value, "__module__", None) == module_name
    is_alias = getattr(value, "__name__", name) != name
    return (0 if is_home else 1 if is_exported else 2) * 2 + is_alias


def _methods(owner: Entry, seen: set[int]) -> Iterator[Entry]:
    """Yield the public methods and properties of a class, without those inherited from another public class."""
    members: dict[str, Any] = {}
    for base in reversed(owner.value.__mro__):
        # Methods of a private base class belong to this class: the methods of _socket.socket are socket.socket's.
        if base is owner.value or base.__module__.startswith("_") or base.__name__.startswith("_"):
            members.update(vars(base))
    for name, value in sorted(members.items()):
        # A static or class method is wrapped in a descriptor without a signature.
        value = getattr(value, "__func__", value)
        is_method = inspect.isroutine(value) or isinstance(value, property)
        if is_method and not name.startswith("_") and id(value) not in seen:
            seen.add(id(value))
            yield Entry(f"{owner.qualified_name}.{name}", "method", value, owner.module)


def _own_docstring(value: Any) -> str:
    """Return the object's docstring without indentation. An inherited docstring does not count."""
    # inspect.getdoc falls back to base classes, so the docstring is read from the namespace of the class.
    docstring = vars(value).get("__doc__") if inspect.isclass(value) else getattr(value, "__doc__", None)
    return inspect.cleandoc(docstring).strip()[:MAX_TEXT] if isinstance(docstring, str) else ""


def _document(entry: Entry, text: str) -> dict[str, Any]:
    """Return the document of an object."""
    return {
        "id": entry.qualified_name,
        "title": _title(entry),
        "text": text,
        "url": f"https://docs.python.org/3/library/{PAGES.get(entry.module, entry.module).lower()}.html",
        "metadata": {"module": entry.package, "kind": entry.kind},
    }


def _title(entry: Entry) -> str:
    """Return the qualified name, followed by the call signature if there is one."""
    title = entry.qualified_name + _signature(entry)
    return title if len(title) <= MAX_TITLE else title[: MAX_TITLE - 4] + "...)"


def _signature(entry: Entry) -> str:
    """Return the object's signature without annotations, "" if there is no readable signature."""
    if entry.kind == "module" or isinstance(entry.value, property) or entry.package in INSTALLATION_MODULES:
        return ""
    try:
        signature = inspect.signature(entry.value)
    except (TypeError, ValueError):
        return ""
    parameters = [item.replace(annotation=inspect.Parameter.empty) for item in signature.parameters.values()]
    if entry.kind == "method" and parameters and parameters[0].name in ("self", "cls"):
        parameters = parameters[1:]
    text = str(signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty))
    # A default such as <object at 0x...> differs from run to run.
    return "" if "<" in text else text
