"""Names the parts of an input that a schema refused: for each part a JSON pointer, and what was wanted of it.

An error of pydantic about a union has the names of the types in its location, and there is an error for each type.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import starmap
from typing import Any

from service.http.wording import repeatable

KEY = "[key]"
"""The last part of the location of an error about the name of a field."""
OTHER_TYPE = {"literal_error", "int_from_float"}
"""Errors that say that the value has another type, beside those whose name ends with `_type`."""
TYPE = "Input should be "
Place = tuple[str | int, ...]


def pointer(location: Sequence[str | int]) -> str:
    """Return the JSON pointer (RFC 6901) of a position in the input."""
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in location)


def input_errors(errors: Iterable[Mapping[str, Any]], given: Any) -> list[dict[str, str]]:
    """Return pointer and detail of each part that is not as documented.

    errors: of pydantic, about the value `given`, which tells the keys and indexes of a location from names of types.
    """
    by_place: dict[Place, list[Mapping[str, Any]]] = {}
    for error in errors:
        by_place.setdefault(_place(error, given), []).append(error)
    outer = {place[:length] for place in by_place for length in range(len(place))}
    return errors_at(
        (place, _detail(found))
        for place, found in by_place.items()
        if place not in outer or not all(map(_is_of_type, found))  # one of the types fits, but for a part of the value
    )


def errors_at(found: Iterable[tuple[Sequence[str | int], str]]) -> list[dict[str, str]]:
    """Return pointer and detail of each place and of what was wanted there, without names that are not repeated."""
    shown = dict.fromkeys((pointer(place), detail) for place, detail in starmap(repeatable, found))
    return [{"pointer": place, "detail": detail} for place, detail in shown]


def _place(error: Mapping[str, Any], given: Any) -> Place:
    """Return the keys and indexes of the location of an error."""
    parts: list[str | int] = []
    is_inside = True
    for part in error["loc"]:
        if isinstance(given, dict):
            is_inside = part in given
        else:
            is_inside = isinstance(given, list) and isinstance(part, int) and part < len(given)
        if is_inside:
            parts.append(part)
            given = given[part]
    if error["type"] == "missing" and not is_inside:  # parameters of a query string are inside, also if missing
        parts.append(error["loc"][-1])
    return tuple(parts)


def _is_of_type(error: Mapping[str, Any]) -> bool:
    return error["type"].endswith("_type") or error["type"] in OTHER_TYPE


def _detail(errors: Sequence[Mapping[str, Any]]) -> str:
    """Return what was wanted of a part. A value of one of the types is wrong by the errors about that type."""
    precise = [error for error in errors if not _is_of_type(error)]
    texts = list(dict.fromkeys(map(_text, precise or errors)))
    if all(text.startswith(TYPE) for text in texts):
        return TYPE + " or ".join(text.removeprefix(TYPE) for text in texts)
    return "; ".join(texts)


def _text(error: Mapping[str, Any]) -> str:
    text: str = error["msg"].removeprefix("Value error, ")
    return f"The name of the field: {text}" if KEY in error["loc"][-1:] else text
