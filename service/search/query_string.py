"""A search as a query string: the parameters of the body, lists by comma."""

from typing import Any

from pydantic import ValidationError
from starlette.datastructures import QueryParams

from service.http.input_errors import input_errors
from service.http.problems import invalid_request
from service.http.query_parameters import require_declared
from service.search.schemas import SearchIn

LISTS = {"facets", "sort", "fields", "predict", "context"}
BOOLEANS = {"answer", "count", "explain", "pooled", "typos", "operators", "all_words", "snippet", "log"}
INTEGERS = {"limit", "offset", "candidates", "snippet_length"}
NUMBERS = {"min_logit", "max_null_weight", "explore"}
TRUTH = {"true": True, "1": True, "false": False, "0": False}


def _parameters() -> list[dict[str, Any]]:
    schema = SearchIn.model_json_schema()
    return [
        {"name": name, "in": "query", "required": name in schema["required"], "schema": described}
        | ({"style": "form", "explode": False} if name in LISTS else {})
        for name, described in schema["properties"].items()
    ]


PARAMETERS = _parameters()
"""The parameters in the form of OpenAPI."""
DECLARED = {parameter["name"]: parameter["name"] in LISTS for parameter in PARAMETERS}
"""Name -> whether it is a list, which may occur more than once."""


def search_of(parameters: QueryParams) -> SearchIn:
    """Return the search of a query string; `log` is false by default. Raises Problem 422."""
    require_declared(parameters, DECLARED)
    body: dict[str, Any] = {"log": False}
    for name, text in parameters.multi_items():
        value = _value(name, text)
        body[name] = body[name] + value if name in body and name in LISTS else value
    try:
        return SearchIn.model_validate(body)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False, include_context=False)
        raise invalid_request(input_errors(found, body)) from error


def _value(name: str, text: str) -> Any:
    """Return the value of a parameter; a text that is not of its type is left to the schema."""
    if name in LISTS:
        return [part.strip() for part in text.split(",") if part.strip()]
    if name in BOOLEANS:
        return TRUTH.get(text.lower(), text)
    try:
        if name in INTEGERS or (name == "model" and text.isdigit()):
            return int(text)
        return float(text) if name in NUMBERS else text
    except ValueError:
        return text
