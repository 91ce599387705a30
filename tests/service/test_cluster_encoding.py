"""Documents of a large task are encoded by a process that asks a cluster; here it encodes them without one."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from structlog.testing import capture_logs

from index.encoding.documents import EncodedDocument, document_value
from index.records import Key, KeyKind
from service.documents import cluster_encoding, indexing
from service.documents.packed_vectors import packed, unpacked
from service.settings import Settings
from tests.service.client import CollectionClient, create, opened

COUNT = 9
PROGRAM = """
import sys, time
from contextlib import nullcontext
from service.cluster import encoding

def encoded(specification, blocks):
    encoder = encoding.BlockEncoder(specification)
    for number, block in enumerate(blocks):
        {before}
        yield number, encoder({{"block": [number], "numbers": [block]}})["frame"][0]

encoding.encoded, encoding.connected = encoded, nullcontext
sys.exit(encoding.main(sys.argv[1:]))
"""
Programs = Callable[[str], None]


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Programs:
    """Replaces the cluster by a program that encodes by itself, and does something before each block."""
    start = subprocess.Popen

    def use(before: str) -> None:
        def started(command: list[str], **options: Any) -> Any:
            if command[1:3] == ["-m", "service.cluster.encoding"]:
                command = [sys.executable, "-c", PROGRAM.format(before=before), command[3]]
            return start(command, **options)

        monkeypatch.setattr(cluster_encoding.subprocess, "Popen", started)

    monkeypatch.setattr(indexing, "BULK", COUNT)
    monkeypatch.setattr(cluster_encoding, "BLOCK", 2)
    return use


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[CollectionClient]:
    with opened(tmp_path / "data", ray_encoders=2) as client:
        yield create(client, "shelf")


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, float, float]]:
    """The ranking of the same documents, encoded by the service."""
    with opened(tmp_path_factory.mktemp("expected") / "data") as client:
        return ranking(create(client, "shelf"))


def ranking(shelf: CollectionClient) -> list[tuple[str, float, float]]:
    """Add the documents, and return what a search finds."""
    shelf.add(*({"id": f"b{n}", "title": f"Volume {n}", "text": f"annals {n}. " * 3} for n in range(COUNT)))
    return shelf.ranking("annals 3")


def test_documents_get_the_vectors_that_the_service_would_make(
    program: Programs, shelf: CollectionClient, expected: Any
) -> None:
    program("print('a library says something')")
    with capture_logs() as log:
        assert ranking(shelf) == expected
    assert not log


def test_the_service_encodes_what_a_failed_cluster_left(
    program: Programs, shelf: CollectionClient, expected: Any
) -> None:
    program("assert number < 3")
    with capture_logs() as log:
        assert ranking(shelf) == expected
    (warning,) = log
    assert warning["event"] == "encoded_by_the_service"
    assert warning["documents"] == 3, "three blocks of two documents were published before"


def test_the_service_encodes_where_there_is_no_cluster(
    monkeypatch: pytest.MonkeyPatch, shelf: CollectionClient, expected: Any
) -> None:
    monkeypatch.setattr(indexing, "BULK", COUNT)
    assert ranking(shelf) == expected


def test_the_service_encodes_where_the_process_ends_before_it_has_read_all_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start = subprocess.Popen
    monkeypatch.setattr(
        cluster_encoding.subprocess, "Popen", lambda _command, **options: start([sys.executable, "-c", ""], **options)
    )
    with pytest.raises(cluster_encoding.ClusterFailed):
        next(cluster_encoding.encoded_on_cluster(Settings(), "x", (), range(200_000), "documents", lambda: None))


def test_a_silent_cluster_is_given_up(
    program: Programs, shelf: CollectionClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_encoding, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(cluster_encoding, "SILENT_SECONDS", 0.1)
    program("time.sleep(600)")
    with capture_logs() as log:
        ranking(shelf)
    assert [one["event"] for one in log] == ["encoded_by_the_service"]


def test_a_deleted_document_does_not_come_back(program: Programs, shelf: CollectionClient, tmp_path: Path) -> None:
    """It is deleted while the blocks wait, and another one is posted again."""
    gate = tmp_path / "gate"
    program(f"import pathlib\n        while not pathlib.Path({str(gate)!r}).exists(): time.sleep(0.01)")
    books = [{"id": f"b{n}", "text": "old"} for n in range(COUNT)]
    task = shelf.post("documents", {"documents": books})
    assert shelf.client.delete(f"{shelf.path}/documents/b2").status_code == 204
    shelf.client.put(f"{shelf.path}/documents/b3", json={"text": "new"})
    gate.touch()
    assert shelf.ended_task(task)["status"] == "succeeded"
    found = shelf.search("*", limit=COUNT)["hits"]
    assert sorted(hit["id"] for hit in found) == [f"b{n}" for n in range(COUNT) if n != 2]
    assert next(hit["text"] for hit in found if hit["id"] == "b3") == "new"


def test_a_canceled_task_ends_the_process(program: Programs, shelf: CollectionClient) -> None:
    program("time.sleep(600)")
    books = [{"id": f"b{n}", "text": "annals"} for n in range(COUNT)]
    task = shelf.post("documents", {"documents": books})
    shelf.client.post(f"/v1/tasks/{task['id']}/cancel")
    assert shelf.ended_task(task)["status"] == "canceled"
    assert shelf.get()["counts"]["pending"] == 0


def test_packed_documents_are_unpacked_unchanged() -> None:
    vectors = np.eye(4, dtype=np.float32)
    keys = [Key(KeyKind.TITLE, vectors[0], 0, 5), Key(KeyKind.PASSAGE, vectors[1], 0, 9)]
    documents = {7: EncodedDocument(keys, document_value(keys, 4)), 9: EncodedDocument([], document_value([], 4))}
    found = unpacked(packed(documents, 4))
    assert list(found) == [7, 9]
    assert [(key.kind, key.start, key.end, key.vector.tolist()) for key in found[7].keys] == [
        (key.kind, key.start, key.end, key.vector.tolist()) for key in keys
    ]
    assert all(np.array_equal(found[one].value, documents[one].value) for one in documents)


@pytest.mark.parametrize("body", [b"", b"PK", packed({}, 4)[:40]])
def test_other_bytes_are_no_packed_documents(body: bytes) -> None:
    with pytest.raises(ValueError):
        unpacked(body)
