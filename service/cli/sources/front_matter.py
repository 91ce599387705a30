"""Reads the front matter of a text: YAML between lines of `---`, or TOML between lines of `+++`."""

import re
import tomllib
from dataclasses import dataclass, field
from typing import Any

from service.documents.metadata import Scalar, as_text

FRONT_MATTER = re.compile(
    r"(---|\+\+\+)[ \t]*\r?\n(.*?)(?:\r?\n|^)\1[ \t]*(?:\r?\n|\Z)",
    re.DOTALL | re.MULTILINE,
)


class InvalidFrontMatter(ValueError):
    """Front matter that is not valid."""


@dataclass(frozen=True)
class FrontMatter:
    """The title, None where there is none, the other fields, and the text after the front matter."""

    body: str
    title: str | None = None
    fields: dict[str, Any] = field(default_factory=dict)


def front_matter(text: str) -> FrontMatter:
    """Return the front matter at the start of a text. Raises InvalidFrontMatter.

    A title in YAML is the text that the file has. A title in TOML is its value as text. A list or an object is not a
    title and stays a field.
    """
    match = FRONT_MATTER.match(text)
    if not match:
        return FrontMatter(text)
    try:
        found = _yaml(match[2]) if match[1] == "---" else _toml(match[2])
    except ValueError as error:
        kind, place = ("YAML", _yaml_place(error)) if match[1] == "---" else ("TOML", "")
        raise InvalidFrontMatter(f"the front matter is not valid {kind}{place}") from error
    if found is None:
        return FrontMatter(text)  # a text between two horizontal rules
    title, fields = found
    if title is not None or fields.get("title") is None:
        fields = {name: value for name, value in fields.items() if name != "title"}
    return FrontMatter(text[match.end() :], title, fields)


def _yaml_place(error: ValueError) -> str:
    """Return the line of the file that an error names, as the end of a sentence; empty if it names none."""
    mark = getattr(error.__cause__, "problem_mark", None)
    return "" if mark is None else f": line {mark.line + 2}"


def _toml(content: str) -> tuple[str | None, dict[str, Any]]:
    """Return the title and all fields. Raises ValueError."""
    fields = {name: _of_64_bits(value) for name, value in tomllib.loads(content).items()}
    title = fields.get("title")
    if title is None or isinstance(title, dict | list):
        return None, fields
    return as_text(title) if isinstance(title, Scalar) else str(title), fields


def _of_64_bits(value: Any) -> Any:
    """Return a value whose integers of more than 64 bits are text, which JSON would round."""
    if isinstance(value, dict):
        return {name: _of_64_bits(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_of_64_bits(inner) for inner in value]
    return str(value) if isinstance(value, int) and not -(2**63) <= value < 2**63 else value


def _yaml(content: str) -> tuple[str | None, dict[str, Any]] | None:
    """Return the title and all fields; None for what is no mapping. Raises ValueError."""
    from yaml import YAMLError

    from service.cli.sources.yaml_values import read_mapping

    try:
        found = read_mapping(content)
    except YAMLError as error:
        raise ValueError(str(error)) from error
    if found is None:
        return None
    fields, texts = found
    return texts.get("title"), fields
