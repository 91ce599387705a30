"""The demonstration corpus is large, stable and consistent with the questions asked about it."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from service.demo import documents as corpus
from service.demo.documents import MAX_TEXT, MAX_TITLE, MIN_TEXT, gather_documents

QUESTIONS_FILE = Path(corpus.__file__).with_name("questions.jsonl")


@pytest.fixture(scope="module")
def documents() -> list[dict[str, Any]]:
    """Return the gathered documents."""
    return gather_documents()


@pytest.fixture(scope="module")
def questions() -> list[dict[str, Any]]:
    """Return the questions, one per line of the file."""
    return [json.loads(line) for line in QUESTIONS_FILE.read_text(encoding="utf-8").splitlines()]


def test_the_corpus_has_at_least_two_thousand_documents(documents: list[dict[str, Any]]) -> None:
    assert len(documents) >= 2000


def test_ids_are_unique(documents: list[dict[str, Any]]) -> None:
    ids = [document["id"] for document in documents]
    assert len(set(ids)) == len(ids)


def test_gathering_twice_gives_the_same_documents_in_the_same_order(documents: list[dict[str, Any]]) -> None:
    assert gather_documents() == documents


def test_every_document_has_exactly_the_expected_fields(documents: list[dict[str, Any]]) -> None:
    for document in documents:
        assert set(document) == {"id", "title", "text", "url", "metadata"}
        assert set(document["metadata"]) == {"module", "kind"}
        assert document["metadata"]["kind"] in {"module", "class", "function", "method"}
        assert document["url"].startswith("https://docs.python.org/3/library/")


def test_every_title_starts_with_the_id_and_is_short(documents: list[dict[str, Any]]) -> None:
    for document in documents:
        assert document["title"].startswith(document["id"])
        assert len(document["title"]) <= MAX_TITLE


def test_every_text_is_neither_too_short_nor_too_long(documents: list[dict[str, Any]]) -> None:
    assert all(MIN_TEXT <= len(document["text"]) <= MAX_TEXT for document in documents)


def test_no_private_name_is_a_document(documents: list[dict[str, Any]]) -> None:
    assert not [document["id"] for document in documents if re.search(r"(^|\.)_", document["id"])]


def test_an_object_is_found_under_its_public_name(documents: list[dict[str, Any]]) -> None:
    ids = {document["id"] for document in documents}
    public = {
        "functools.reduce",
        "os.path.join",
        "builtins.sorted",
        "builtins.str.split",
        "random.choice",
        "time.localtime",
    }
    assert public <= ids
    assert not ids & {"posixpath.join", "io.open", "random.Random.choice", "logging.Formatter.converter"}


def test_no_title_shows_a_memory_address_or_the_installation_path(documents: list[dict[str, Any]]) -> None:
    unwanted = (" at 0x", sys.prefix + "/", sys.base_prefix + "/", sys.executable)
    assert not [document["title"] for document in documents if any(part in document["title"] for part in unwanted)]


def test_there_are_at_least_two_hundred_questions(questions: list[dict[str, Any]]) -> None:
    assert len(questions) >= 200


def test_every_answer_is_a_document(documents: list[dict[str, Any]], questions: list[dict[str, Any]]) -> None:
    ids = {document["id"] for document in documents}
    answers = {answer for question in questions for answer in question["answers"]}
    assert sorted(answers - ids) == []


def test_every_question_has_one_to_four_different_answers(questions: list[dict[str, Any]]) -> None:
    for question in questions:
        assert 1 <= len(question["answers"]) <= 4
        assert len(set(question["answers"])) == len(question["answers"])


def test_questions_are_unique(questions: list[dict[str, Any]]) -> None:
    asked = [" ".join(question["question"].lower().split()) for question in questions]
    assert len(set(asked)) == len(asked)


def test_no_question_names_its_answer(questions: list[dict[str, Any]]) -> None:
    # A module's id is an ordinary word ("calendar"), so that only dotted ids give the answer away.
    for question in questions:
        dotted = [answer for answer in question["answers"] if "." in answer]
        assert not [answer for answer in dotted if answer.lower() in question["question"].lower()]


def test_many_answers_have_more_than_one_question(questions: list[dict[str, Any]]) -> None:
    ways: dict[str, int] = {}
    for question in questions:
        ways[question["answers"][0]] = ways.get(question["answers"][0], 0) + 1
    assert sum(count >= 2 for count in ways.values()) >= 90
