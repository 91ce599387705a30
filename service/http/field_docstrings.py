"""The descriptions of fields in the OpenAPI schema, from the docstrings below them.

Pydantic can read them too, but does so for each class while it is defined, which takes a fifth of a second of every
start. Here they are read when the schema is asked for.
"""

import ast
import inspect
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel

VARIANTS = ("", "-Input", "-Output")
"""The ends of the names that FastAPI gives to the schemas of a model, if requests and answers differ."""


def describe_fields(schemas: Mapping[str, Any], models: Iterable[type[BaseModel]]) -> None:
    """Add the docstrings of fields to the schemas of these models."""
    for model in models:
        documented = docstrings(model)
        for name in (model.__name__ + end for end in VARIANTS):
            properties = schemas.get(name, {}).get("properties", {})
            for field, text in documented.items():
                described = properties.get(model.model_fields[field].alias or field)
                if described is not None:
                    described.setdefault("description", text)


def docstrings(model: type[BaseModel]) -> dict[str, str]:
    """Return field -> docstring of a model's fields, with those that it inherits."""
    found: dict[str, str] = {}
    for one in reversed(model.__mro__):
        if issubclass(one, BaseModel) and one is not BaseModel:
            found |= _of_module(one.__module__).get(one.__qualname__, {})
    return {field: text for field, text in found.items() if field in model.model_fields}


@cache
def _of_module(name: str) -> dict[str, dict[str, str]]:
    """Return class -> field -> docstring of the classes of a module."""
    file = getattr(sys.modules.get(name), "__file__", None)
    if file is None:
        return {}
    body = ast.parse(Path(file).read_text(encoding="utf-8")).body
    return {one.name: dict(_of_class(one)) for one in body if isinstance(one, ast.ClassDef)}


def _of_class(definition: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for statement, after in zip(definition.body, definition.body[1:], strict=False):
        match statement, after:
            case ast.AnnAssign(target=ast.Name(id=field)), ast.Expr(value=ast.Constant(value=str(text))):
                yield field, inspect.cleandoc(text)
