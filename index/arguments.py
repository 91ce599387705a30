"""Checks of the arguments of the library. Each raises InvalidArgument, before anything is changed."""

import math
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from numbers import Real
from typing import Any

import numpy as np

from index.errors import InvalidArgument
from index.records import Document

LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def is_text(value: object) -> bool:
    """Return whether a value is a string without lone surrogates, which are no characters and cannot be stored."""
    return isinstance(value, str) and not LONE_SURROGATE.search(value)


def require_text(name: str, value: object) -> None:
    """Require a string of Unicode characters."""
    if not is_text(value):
        raise InvalidArgument(f"{name} must be a string of Unicode characters")


def require_count(name: str, value: object) -> None:
    """Require a whole number from 0 on."""
    if not is_whole(value, 0):
        raise InvalidArgument(f"{name} is {value!r}; it must be a whole number from 0 on")


def is_whole(value: object, least: int) -> bool:
    """Return whether a value is a whole number from `least` on, also one of numpy."""
    return not isinstance(value, bool) and isinstance(value, int | np.integer) and int(value) >= least


def require_several(name: str, values: object) -> list[Any]:
    """Require several values, and not a lone string or document; return them."""
    if isinstance(values, str | Document) or not isinstance(values, Iterable):
        raise InvalidArgument(f"{name} must be several values, such as a list")
    return list(values)


def require_documents(documents: object) -> list[Document]:
    """Require documents whose parts have the types that they are declared with; return them."""
    found = require_several("documents", documents)
    for number, document in enumerate(found):
        _require_document(f"documents[{number}]", document)
    return found


def _require_document(place: str, document: object) -> None:
    if not isinstance(document, Document):
        raise InvalidArgument(f"{place} must be a Document")
    for field in ("id", "text", "title", "url"):
        value = getattr(document, field)
        if value is not None or field in ("id", "text"):
            require_text(f"{place}.{field}", value)
    if not isinstance(document.metadata, Mapping):
        raise InvalidArgument(f"{place}.metadata must be a mapping")
    for name, value in document.metadata.items():
        require_text(f"a name in {place}.metadata", name)
        if not _is_metadata(value):
            wanted = "a string, a finite number, a boolean or a list of these"
            raise InvalidArgument(f"{place}.metadata[{name!r}] must be {wanted}")


def _is_metadata(value: object) -> bool:
    if isinstance(value, list | tuple):
        return all(_is_scalar(one) for one in value)
    return _is_scalar(value)


def _is_scalar(value: object) -> bool:
    return is_text(value) or is_finite(value) or isinstance(value, np.bool_)


def is_finite(value: object) -> bool:
    """Return whether a value is a number that a float can hold."""
    with suppress(OverflowError):  # of an integer that no float can hold
        return isinstance(value, Real) and math.isfinite(value)
    return False


def require_ids(ids: object) -> list[str]:
    """Require ids, and not a single one; return them."""
    found = require_several("ids", ids)
    for number, id in enumerate(found):
        require_text(f"ids[{number}]", id)
    return found


def require_qrels(qrels: object) -> None:
    """Require query text -> document id -> grade."""
    if not isinstance(qrels, Mapping):
        raise InvalidArgument("qrels must be a mapping from queries to mappings from documents to grades")
    for text, grades in qrels.items():
        require_text("a query of qrels", text)
        if not isinstance(grades, Mapping):
            raise InvalidArgument(f"qrels[{text!r}] must be a mapping from documents to grades")
        for id in grades:
            require_text(f"a document of qrels[{text!r}]", id)


def require_measures(measures: object) -> list[str]:
    """Require at least one name of a measure; return the names."""
    found = require_several("measures", measures)
    if not found:
        raise InvalidArgument("measures must have at least one name, such as nDCG@10")
    for name in found:
        require_text("a measure", name)
    return found
