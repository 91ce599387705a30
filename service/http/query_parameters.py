"""Refuses paths and query strings that are not UTF-8, unknown parameters, and parameters that occur twice."""

from collections.abc import Iterator, Mapping
from typing import Any, get_args, get_origin
from urllib.parse import unquote_plus, unquote_to_bytes

from fastapi.dependencies.models import Dependant
from pydantic import BaseModel
from starlette.datastructures import QueryParams

from service.http.input_errors import errors_at
from service.http.problems import invalid_request

UNKNOWN = "the parameter is not known"
MORE_THAN_ONCE = "the parameter occurs more than once"
NOT_UTF8 = "the parameter is not valid UTF-8"


def declared_parameters(dependant: Dependant) -> dict[str, bool]:
    """Return the query parameters of a route and its dependencies: name -> whether it is a list."""
    return {name: _is_list(annotation) for name, annotation in _annotated(dependant)}


def require_declared(given: QueryParams, declared: Mapping[str, bool]) -> None:
    """Raise Problem 422 for unknown parameters, and for those that occur more than once and are no lists."""
    names = [name for name, _ in given.multi_items()]
    wrong = {name: UNKNOWN for name in names if name not in declared}
    wrong |= {name: MORE_THAN_ONCE for name, is_list in declared.items() if not is_list and names.count(name) > 1}
    if wrong:
        raise invalid_request(errors_at(([name], detail) for name, detail in wrong.items()))


def require_utf8(query: bytes) -> None:
    """Raise Problem 422 for parameters of a query string that are not UTF-8. Parsers put other characters there."""
    if b"%" not in query or _is_utf8(query):
        return
    wrong = (part.partition(b"=")[0] for part in query.split(b"&") if not _is_utf8(part))
    names = dict.fromkeys(unquote_plus(name.decode("latin-1")) for name in wrong)
    raise invalid_request(errors_at(([name], NOT_UTF8) for name in names))


def require_utf8_path(path: str, sent: bytes | None, given: Mapping[str, Any]) -> None:
    """Raise Problem 422 for a path that is not UTF-8: the server puts U+FFFD there, which names something else.

    sent: the path with its percent-encoding, if the server tells it. given: the parameters of the path.
    """
    if "\ufffd" in path and sent is not None and not _is_utf8(sent):
        names = [name for name, value in given.items() if "\ufffd" in str(value)]
        raise invalid_request(errors_at(([name], NOT_UTF8) for name in names))


def _is_utf8(encoded: bytes) -> bool:
    try:
        unquote_to_bytes(encoded).decode()
    except UnicodeDecodeError:
        return False
    return True


def _annotated(dependant: Dependant) -> Iterator[tuple[str, Any]]:
    """Yield name and annotation of each query parameter; a model stands for its fields."""
    for parameter in dependant.query_params:
        annotation = parameter.field_info.annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            yield from ((one.alias or name, one.annotation) for name, one in annotation.model_fields.items())
        else:
            yield parameter.alias, annotation
    for inner in dependant.dependencies:
        yield from _annotated(inner)


def _is_list(annotation: Any) -> bool:
    return get_origin(annotation) is list or any(map(_is_list, get_args(annotation)))
