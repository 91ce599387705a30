"""Checks a document against the limits of the API, and says in words what is wrong with it."""

from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import ValidationError

from service.documents.schemas import DocumentIn, DocumentPatch
from service.http.wording import in_words, named

METADATA_TYPES = "must be a string, a number, true, false or a list of these"
INNER = {"string_too_long", "too_long", "finite_number", "less_than_equal"}
"""Errors that are more precise than METADATA_TYPES."""


@dataclass(frozen=True)
class Wrong:
    """The first fault of a document: the field, and what was wanted of it."""

    field: str
    wanted: str

    @property
    def detail(self) -> str:
        """The fault in a sentence."""
        return f"{self.field}: {self.wanted}"


T = TypeVar("T", DocumentIn, DocumentPatch)


def check_document(item: Any, model: type[T]) -> T | Wrong:
    """Return an item as a document, or as a patch of one, or what is wrong with it."""
    try:
        return model.model_validate(item)
    except ValidationError as error:
        errors = error.errors(include_url=False, include_input=False)
    if not isinstance(item, dict):
        return Wrong("record", "must be an object")
    first = errors[0]
    location = first["loc"]
    if len(location) < 3 or location[0] != "metadata":
        return Wrong(*named(location, in_words(dict(first))))
    if location[-1] == "[key]":
        return Wrong("metadata", f"a name {in_words(dict(first))}")
    # the value of a field matches none of the types: there is an error for each type
    precise = [one for one in errors if one["loc"][:2] == location[:2] and one["type"] in INNER]
    wanted = in_words(dict(precise[0])) if precise else METADATA_TYPES
    return Wrong(*named(location[:2], wanted))
