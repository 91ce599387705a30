"""Reads YAML whose values are what they look like: the types of YAML 1.2, without the surprises of YAML 1.1.

The core schema of YAML 1.2 (https://yaml.org/spec/1.2.2/#103-core-schema) has null, booleans and numbers. `No` and
`12:30` are text in it. Here, what is rather a code than a number is text too: with a leading zero or a plus sign, such
as a postcode or a telephone number; an integer of more than 64 bits; an exponent without a point, such as `4e51926`;
and a number beyond the range of floats. Dates are dates, as in YAML 1.1.
"""

import math
import re
from datetime import date
from typing import Any, ClassVar

import yaml

NULL = re.compile(r"~|null|Null|NULL|")
BOOLEAN = re.compile(r"true|True|TRUE|false|False|FALSE")
INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
FLOAT = re.compile(r"-?(?:(?:0|[1-9][0-9]*)\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
DATE = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"(?:(?:[Tt]|[ \t]+)[0-9]{1,2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]*)?(?:[ \t]*(?:Z|[-+][0-9]{1,2}(?::[0-9]{2})?))?)?"
)
RESOLVED = (
    ("null", NULL, ["~", "n", "N", ""]),
    ("bool", BOOLEAN, [*"tTfF"]),
    ("int", INTEGER, [*"-0123456789"]),
    ("float", FLOAT, [*"-.0123456789"]),
    ("timestamp", DATE, [*"0123456789"]),
    ("merge", re.compile("<<"), ["<"]),
)
"""Tag, pattern of the whole text, and first characters, of scalars without quotes. Others are text."""


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """Builds plain values. Keys are text, as they are written."""

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        """Return a mapping; its keys are the texts of their scalars."""
        if isinstance(node, yaml.MappingNode):
            self.flatten_mapping(node)
            node.value = [(_as_text(key), value) for key, value in node.value]
        return super().construct_mapping(node, deep)

    def construct_yaml_int(self, node: Any) -> Any:
        """Return an integer of at most 64 bits, or the text of a longer one."""
        value = super().construct_yaml_int(node)
        return value if -(2**63) <= value < 2**63 else node.value

    def construct_yaml_float(self, node: Any) -> Any:
        """Return a finite number, or its text where floats have no such number."""
        value = super().construct_yaml_float(node)
        return value if math.isfinite(value) else node.value

    def construct_yaml_timestamp(self, node: Any) -> Any:
        """Return a date, or its text where there is no such day."""
        try:
            return super().construct_yaml_timestamp(node)
        except (ValueError, OverflowError):
            return node.value


def _as_text(key: Any) -> Any:
    """Return a new node for a key that is a scalar: the value that an alias shares with it keeps its type."""
    return yaml.ScalarNode("tag:yaml.org,2002:str", key.value) if isinstance(key, yaml.ScalarNode) else key


for _tag, _pattern, _first in RESOLVED:
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"(?:{_pattern.pattern})\Z"), _first)
for _tag in ("timestamp", "int", "float"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_tag}", getattr(_Loader, f"construct_yaml_{_tag}"))


def _texts(values: Any, node: Any) -> Any:
    """Return a list of scalars with the texts of numbers and dates as they are written; other lists as they are."""
    if not all(isinstance(one, yaml.ScalarNode) for one in node.value):
        return values
    typed = (int, float, date)
    pairs = zip(values, node.value, strict=True)
    return [one.value if isinstance(value, typed) and not isinstance(value, bool) else value for value, one in pairs]


def read_mapping(content: str) -> tuple[dict[str, Any], dict[str, str]] | None:
    """Return the values of a mapping, and the texts of those that are scalars and not null; None for other YAML.

    A list of numbers, dates and the like has their texts: metadata has lists of texts, and 5.0 is no 5 as a version.

    Raises YAMLError, and ValueError for a number of too many digits or a text that its explicit tag does not fit.
    """
    loader = _Loader(content)
    try:
        node = loader.get_single_node()
        if not isinstance(node, yaml.MappingNode):
            return None
        try:
            values = loader.construct_document(node)
        except (KeyError, AttributeError, IndexError, TypeError) as error:
            raise ValueError(f"a text does not fit its tag: {error}") from error
        if not isinstance(values, dict):
            return None
        nodes = {key.value: value for key, value in node.value}
        values |= {name: _texts(values[name], of) for name, of in nodes.items() if isinstance(of, yaml.SequenceNode)}
        scalars = {name: value for name, value in nodes.items() if isinstance(value, yaml.ScalarNode)}
        return values, {name: value.value for name, value in scalars.items() if values.get(name) is not None}
    finally:
        loader.dispose()
