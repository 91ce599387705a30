"""Bodies with too many values, levels, lines or unknown fields are refused before objects are made of them."""

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import numpy as np
import pytest
from fastapi.testclient import TestClient
from pydantic import ValidationError

from service.documents.checking import Wrong, check_document
from service.documents.schemas import DocumentIn, DocumentPatch
from service.feedback import actions
from service.feedback.schemas import MAX_ITEMS, MAX_LINES
from service.http import json_bounds
from service.http.json_bounds import MAX_VALUES, TooComplex, require_simple
from service.http.requests import INLINE_BYTES, MAX_UNKNOWN_FIELDS
from service.models.schemas import EvaluationIn
from service.search.schemas import SearchIn
from tests.service.client import DEFAULT, CollectionClient, good, opened, problem

MAX_DEPTH = 1024
"""Levels that the parser accepts; docs/api.md names them."""
LETTERS = 'a"\\,[]{} é'


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with opened(tmp_path_factory.mktemp("bounds") / "data") as client:
        CollectionClient(client).add({"id": "bowl", "text": "a bowl"})
        yield client


def counted_slowly(body: bytes) -> int:
    """Return the number of values of JSON, read byte by byte."""
    values, in_string, escaped = 1, False, False
    for sign in body:
        if in_string:
            in_string = escaped or sign != ord('"')
            escaped = not escaped and sign == ord("\\")
        elif sign == ord('"'):
            in_string = True
        elif sign in b"[{,":
            values += 1
    return values


def drawn(generator: random.Random, depth: int = 0) -> Any:
    """Return a random value whose strings contain the marks of JSON."""
    kind = generator.random()
    if depth > 4 or kind < 0.5:
        return "".join(generator.choice(LETTERS) for _ in range(generator.randrange(6)))
    count = generator.randrange(4)
    if kind < 0.75:
        return [drawn(generator, depth + 1) for _ in range(count)]
    return {f"{number}{drawn(generator, 9)}": drawn(generator, depth + 1) for number in range(count)}


@pytest.mark.parametrize("block", [1, 2, 3, 7, 64])
def test_values_are_counted_as_by_a_slow_loop(block: int) -> None:
    generator = random.Random(1)
    for _ in range(200):
        body = json.dumps(drawn(generator), ensure_ascii=False).encode()
        structure = json_bounds._Structure()
        for start in range(0, len(body), block):
            structure.read(np.frombuffer(body[start : start + block], np.uint8))
        assert structure.values == counted_slowly(body), body


def test_a_body_has_at_most_the_bound_of_values() -> None:
    require_simple(b"[" + b"1," * (MAX_VALUES - 2) + b"1]")
    with pytest.raises(TooComplex):
        require_simple(b"[" + b"1," * (MAX_VALUES - 1) + b"1]")


def test_a_text_full_of_commas_and_brackets_is_one_value() -> None:
    require_simple(json.dumps({"text": ',[{"\\' * MAX_VALUES}).encode())


def test_a_body_is_nested_at_most_to_the_bound(client: TestClient) -> None:
    def nested(depth: int) -> bytes:
        return b"[" * depth + b"]" * depth

    for path in ("search", "documents", "events", "judgments"):
        problem(client.post(f"{DEFAULT}/{path}", content=nested(MAX_DEPTH + 1)), 400, "invalid_json")
        answer = client.post(f"{DEFAULT}/{path}", content=nested(MAX_DEPTH))
        assert answer.is_success or answer.json()["code"] == "invalid_request", answer.text


def test_a_body_with_too_many_values_is_read_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    read = []
    whole = json_bounds._Structure.read

    def counting(self: Any, block: Any) -> None:
        read.append(len(block))
        whole(self, block)

    monkeypatch.setattr(json_bounds._Structure, "read", counting)
    with pytest.raises(TooComplex):
        require_simple(b"[" + b"1," * (4 * MAX_VALUES))
    assert sum(read) <= 2 * MAX_VALUES + 2 * json_bounds.BLOCK_BYTES


def many(count: int) -> dict[str, Any]:
    return {f"k{number}": number for number in range(count)}


def test_many_unknown_fields_are_one_error(client: TestClient) -> None:
    answer = client.post(f"{DEFAULT}/search", json={"q": "x", **many(5_000)})
    body = problem(answer, 422, "invalid_request")
    assert body["detail"].startswith("1 part")
    more = client.post(f"{DEFAULT}/search", json={"q": "x", **many(MAX_UNKNOWN_FIELDS + 1)})
    assert problem(more, 422, "invalid_request")["detail"].startswith("1 part")
    few = client.post(f"{DEFAULT}/search", json={"q": "x", **many(MAX_UNKNOWN_FIELDS)})
    assert len(problem(few, 422, "invalid_request")["errors"]) == MAX_UNKNOWN_FIELDS


def test_a_document_with_many_unknown_fields_is_refused_in_words() -> None:
    wrong = check_document({"id": "x", "text": "x", **many(5_000)}, DocumentIn)
    assert isinstance(wrong, Wrong)
    assert "unknown fields" in wrong.detail


@pytest.mark.parametrize(
    ("model", "body"),
    [
        (SearchIn, {"q": "x", **many(5_000)}),
        (DocumentPatch, {"metadata": {f"k{number}": [None] * 100 for number in range(256)}}),
        (DocumentPatch, {"metadata": {str(number): {} for number in range(5_000)}}),
        (EvaluationIn, {"qrels": {f"k{number}": {"": "x"} for number in range(5_000)}}),
        (EvaluationIn, {"qrels": {"q": {f"k{number}": "x" for number in range(5_000)}}}),
    ],
)
def test_wrong_values_without_number_make_few_errors(model: Any, body: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as raised:
        model.model_validate(body)
    assert raised.value.error_count() <= 20


def test_lines_are_counted_before_they_are_parsed(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = []
    monkeypatch.setattr(actions, "_line", lambda line: parsed.append(line))
    for body in (b"x\n" * (MAX_ITEMS + 1), b"x\n" + b"\n" * (MAX_LINES - 1) + b"x"):
        problem(client.post(f"{DEFAULT}/events", content=body), 422, "too_many_events")
    assert parsed == []
    assert len(actions.read_events(b"x\n\n" * MAX_ITEMS)) == MAX_ITEMS == len(parsed)
    for end in (b"x", b"x\n"):
        assert len(actions.read_events(b"x\n" + b"\n" * (MAX_LINES - 2) + end)) == 2


def test_a_line_over_the_bounds_refuses_the_body() -> None:
    with pytest.raises(TooComplex):
        actions.read_events(b'"\n' + b"[" + b"1," * MAX_VALUES + b"1]\n")


def test_a_large_body_is_parsed_in_a_thread(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []
    original = anyio.to_thread.run_sync

    async def run_sync(function: Callable[..., Any], *given: Any, **options: Any) -> Any:
        sent.append(getattr(function, "__name__", getattr(function, "func", function).__class__.__name__))
        return await original(function, *given, **options)

    monkeypatch.setattr(anyio.to_thread, "run_sync", run_sync)
    good(client.post(f"{DEFAULT}/search", json={"q": "bowl"}))
    assert sent == []
    client.post(f"{DEFAULT}/search", json={"q": "x" * INLINE_BYTES})
    assert len(sent) == 1
    sent.clear()
    client.post(f"{DEFAULT}/events", content=b"x\n" * MAX_ITEMS)
    assert len(sent) == 1
