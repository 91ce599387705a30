"""Reads YAML whose values are what they look like: the types of YAML 1.2, without the surprises of YAML 1.1.

The core schema of YAML 1.2 (https://yaml.org/spec/1.2.2/#103-core-schema) has null, booleans and numbers. `No` and
`12:30` are text in it. Here, a number that would lose characters is text too: with a leading zero or a plus sign, such
as a postcode or a telephone number. Dates are dates, as in YAML 1.1.
"""

import re
from typing import Any, ClassVar

import yaml

NULL = re.compile(r"~|null|Null|NULL|")
BOOLEAN = re.compile(r"true|True|TRUE|false|False|FALSE")
INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
FLOAT = re.compile(r"-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
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
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode):
                    key.tag = "tag:yaml.org,2002:str"
        return super().construct_mapping(node, deep)

    def construct_yaml_timestamp(self, node: Any) -> Any:
        """Return a date, or its text where there is no such day."""
        try:
            return super().construct_yaml_timestamp(node)
        except (ValueError, OverflowError):
            return node.value


for _tag, _pattern, _first in RESOLVED:
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"(?:{_pattern.pattern})\Z"), _first)
_Loader.add_constructor("tag:yaml.org,2002:timestamp", _Loader.construct_yaml_timestamp)


def read_mapping(content: str) -> tuple[dict[str, Any], dict[str, str]] | None:
    """Return the values of a mapping, and the texts of those that are scalars and not null; None for other YAML.

    Raises YAMLError, and ValueError for a number of too many digits.
    """
    loader = _Loader(content)
    try:
        node = loader.get_single_node()
        if not isinstance(node, yaml.MappingNode):
            return None
        values = loader.construct_document(node)
        if not isinstance(values, dict):
            return None
        nodes = {key.value: value for key, value in node.value}
        scalars = {name: value for name, value in nodes.items() if isinstance(value, yaml.ScalarNode)}
        return values, {name: value.value for name, value in scalars.items() if values.get(name) is not None}
    finally:
        loader.dispose()
