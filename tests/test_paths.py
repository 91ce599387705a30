"""The paths that CONTRIBUTING.md shows to newcomers: a search and a document cross these files, and few."""

import re
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from fastapi.testclient import TestClient

from service.documents.acceptance import accept
from service.documents.indexing import make_searchable
from service.search.actions import answer
from service.search.schemas import SearchIn
from tests.service.client import CollectionClient, opened, runtime_of

ROOT = Path(__file__).resolve().parent.parent
CONVERTED = "index/encoding/converted_encoder.py"
"""Tests use the hashing encoder in its place."""


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with opened(tmp_path / "data") as client:
        yield client


def test_a_search_crosses_the_listed_files(client: TestClient) -> None:
    collection = CollectionClient(client)
    collection.add({"id": "zip", "title": "zip archives", "text": "Reads and writes compressed archives."})
    runtime = runtime_of(client)
    listed = listed_files("A search crosses")
    crossed = files_of(lambda: answer(runtime, runtime.collection("default"), SearchIn(q="archives")))
    assert len(listed) <= 12
    assert listed - crossed == {"service/search/routes.py", CONVERTED}


def test_a_document_crosses_the_listed_files(client: TestClient) -> None:
    runtime = runtime_of(client)
    state = runtime.collection("default")

    def post() -> None:
        accepted = accept(runtime, state, [{"id": "tar", "text": "Archives of files."}])
        make_searchable(runtime, state, accepted.sequences)

    listed = listed_files("A document crosses")
    crossed = files_of(post)
    assert len(listed) <= 10
    assert listed - crossed == {"service/documents/routes.py", CONVERTED}


def listed_files(beginning: str) -> set[str]:
    """Return the files that the paragraph with this beginning lists; those in parentheses are further ones."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    paragraph = text[text.index(beginning) :].split("\n\n", 1)[0]
    return set(re.findall(r"`([\w/]+\.py)`", re.sub(r"\([^)]*\)", "", paragraph)))


def files_of(work: Callable[[], Any]) -> set[str]:
    """Return the files of the project of which a function runs in this thread, or in a thread that it starts."""
    found: set[str] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            found.add(frame.f_code.co_filename)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return {str(Path(name).relative_to(ROOT)) for name in found if name.startswith(str(ROOT))}
