"""The service answers as its OpenAPI schema says: schemathesis sends what the schema allows and what it forbids.

All checks of schemathesis run, with a single exception: it expects that every body that fits the JSON schema is
accepted. JSON Schema cannot express a filter, a sum of two limits, or an integer that must not be written as 3.0; such
bodies get a 422 that the schema declares. `make soak` asks every operation, the short run every third.
"""

import os
import re
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.generation import GenerationMode
from schemathesis.generation.meta import ParameterLocation
from schemathesis.specs.openapi.checks import positive_data_acceptance

from tests.service.authorised import bearer
from tests.service.client import DEADLINE_SECONDS, DEFAULT, CollectionClient, opened
from tests.service.server import served

ADMIN_KEY = "the-admin-key-of-this-test"
SOAK = bool(os.environ.get("SOAK"))
MOST, EACH = (100, 1) if SOAK else (1, 3)
"""Requests of each kind to an operation, and the share of the operations: each, or every third."""
MODES = list(GenerationMode) if SOAK else [GenerationMode.POSITIVE]
"""Making a wrong request takes schemathesis a second; tests/service/test_fuzz.py sends such requests in every run."""
NAMES = {"collection": "default", "document_id": "owl", "rule_id": "r", "alias": "x", "synonym_id": "s", "version": "0"}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(tmp_path_factory.mktemp("contract") / "data", admin_key=ADMIN_KEY) as port:
        yield f"http://127.0.0.1:{port}"


def headers_of(case: Any) -> dict[str, str]:
    """Return the key. A request whose headers are made wrong has none: that may be all that is wrong with it."""
    header = None if case.meta is None else case.meta.components.get(ParameterLocation.HEADER)
    return {} if header is not None and header.mode.is_negative else bearer(ADMIN_KEY)


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
def test_every_answer_is_as_the_schema_says(address: str, mode: GenerationMode) -> None:
    schema = schemathesis.openapi.from_url(f"{address}/openapi.json", timeout=DEADLINE_SECONDS)
    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) > 40
    for operation in operations[::EACH]:

        @settings(
            max_examples=MOST, derandomize=True, database=None, deadline=None, phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        @given(case=operation.as_strategy(generation_mode=mode))
        def ask(case: schemathesis.Case) -> None:
            case.call_and_validate(
                headers=headers_of(case), timeout=DEADLINE_SECONDS, excluded_checks=[positive_data_acceptance]
            )

        try:
            ask()
        except Unsatisfiable:  # an operation without input takes nothing that is wrong
            assert mode is GenerationMode.NEGATIVE, operation.label


def test_a_wrong_method_names_the_methods_of_the_path(tmp_path_factory: pytest.TempPathFactory) -> None:
    with opened(tmp_path_factory.mktemp("methods") / "data") as client:
        paths = client.get("/openapi.json").json()["paths"]
        for path, operations in paths.items():
            address = re.sub(r"\{(\w+)\}", lambda found: NAMES.get(found[1], "x"), path)
            answer = client.request("TRACE", address)
            assert answer.status_code == 405, address
            methods = {*map(str.upper, operations)} | ({"HEAD"} if "get" in operations else set())
            assert answer.headers["allow"] == ", ".join(sorted(methods)), address
            assert answer.json()["code"] == "method_not_allowed"
        CollectionClient(client).add({"id": "owl", "text": "an owl"})
        assert client.request("TRACE", DEFAULT).headers["allow"] == "DELETE, GET, HEAD, PUT"
