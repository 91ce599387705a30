"""A document that comes again with the same texts keeps its vectors: only texts that changed are encoded."""

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select, update

import service.runtime.runtime
from index.records import Floats
from service.documents import cluster_encoding, indexing
from service.runtime.jobs import Progress
from service.storage.tables import DOCUMENTS, KEYS, VALUES
from tests.service.client import DEADLINE_SECONDS, CollectionClient, create, good, ndjson, opened, runtime_of, until
from tests.service.test_encoding import RecordingEncoder

LONG = " ".join(f"Part {n} is made of oak." for n in range(40))
"""A text of several passages."""
LAMP = {"id": "lamp", "title": "Lamp", "text": "a lamp of brass", "metadata": {"price": 10}}
DESK = {"id": "desk", "title": "Desk", "text": LONG, "metadata": {"price": 20}}
DEARER = [one | {"metadata": {"price": 99}} for one in (LAMP, DESK)]


@pytest.fixture(scope="module")
def recording() -> RecordingEncoder:
    return RecordingEncoder()


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, recording: RecordingEncoder) -> Iterator[TestClient]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(service.runtime.runtime, "load_encoder", lambda *_: recording)
        with opened(tmp_path_factory.mktemp("kept") / "data", ray_encoders=1) as client:
            yield client


@pytest.fixture
def shop(client: TestClient, recording: RecordingEncoder, request: pytest.FixtureRequest) -> CollectionClient:
    """A collection with two documents, whose encoder has recorded nothing yet."""
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)[:100]
    shop = create(client, name, filterable=["price"], keys=["title", "passage", "sentence"])
    shop.add(LAMP, DESK)
    recording.documents.clear()
    return shop


def rows(shop: CollectionClient) -> list[tuple[Any, ...]]:
    """Return the vectors of all documents, without numbers of rows."""
    own = select(DOCUMENTS.c.id, KEYS.c.kind, KEYS.c.span_start, KEYS.c.span_end, KEYS.c.vector)
    own = own.join(KEYS, KEYS.c.document_row == DOCUMENTS.c.row)
    values = select(DOCUMENTS.c.id, VALUES.c.vector).join(VALUES, VALUES.c.document_row == DOCUMENTS.c.row)
    with runtime_of(shop.client).database.read() as connection:
        found = [connection.execute(one.where(DOCUMENTS.c.collection_id == shop.id)).all() for one in (own, values)]
    return sorted((tuple(row) for part in found for row in part), key=repr)


def damage(shop: CollectionClient, table: Any) -> None:
    """Change a stored vector of the lamp."""
    lamp = select(DOCUMENTS.c.row).where(DOCUMENTS.c.collection_id == shop.id, DOCUMENTS.c.id == "lamp")
    with runtime_of(shop.client).database.write() as connection:
        row = connection.execute(lamp).scalar_one()
        connection.execute(update(table).where(table.c.document_row == row).values(vector=bytes(4 * 64)))


def post(shop: CollectionClient) -> Any:
    return shop.add(*DEARER)


def put(shop: CollectionClient) -> None:
    for one in DEARER:
        good(shop.client.put(f"{shop.path}/documents/{one['id']}", json=one))


def imported(shop: CollectionClient) -> Any:
    task = good(shop.client.post(f"{shop.path}/documents/import", content=ndjson(DEARER)))
    return shop.ended_task(task)["result"]


@pytest.mark.parametrize("upload", [post, put, imported])
def test_documents_with_another_price_are_not_encoded(
    shop: CollectionClient, recording: RecordingEncoder, upload: Callable[[CollectionClient], Any]
) -> None:
    before, vectors = shop.ranking("a lamp of oak"), rows(shop)
    result = upload(shop)
    assert recording.documents == set()
    assert rows(shop) == vectors
    assert shop.ranking("a lamp of oak") == before
    assert sorted(shop.ids("lamp", filter="price = 99")) == ["desk", "lamp"]
    assert shop.ids("lamp", filter="price < 99") == []
    assert shop.get()["counts"]["pending"] == 0
    if result:
        keys = sum(shop.get()["counts"]["keys"][kind] for kind in ("title", "passage", "sentence"))
        assert (result["unchanged"], result["passages"], result["passages_kept"]) == (0, 0, keys)


def test_only_texts_that_changed_are_encoded(shop: CollectionClient, recording: RecordingEncoder) -> None:
    result = shop.add(LAMP | {"title": "Torch"}, DESK | {"text": LONG.replace("Part 39 is", "Part 39 was")})
    assert {"Torch", "Torch\na lamp of brass"} <= recording.documents
    assert "a lamp of brass" not in recording.documents, "its sentence is the same"
    assert all("Part 39 was" in text for text in recording.documents if "Torch" not in text)
    assert result["passages"] == len(recording.documents)
    assert shop.ids("torch", mode="words") == ["lamp"]


def test_changed_documents_have_the_vectors_of_new_ones(shop: CollectionClient) -> None:
    changed = [LAMP | {"title": "Torch"}, DESK | {"text": "Oak only. " + LONG}]
    shop.add(*changed)
    fresh = create(shop.client, f"{shop.name}-fresh", keys=["title", "passage", "sentence"])
    fresh.add(*changed)
    assert rows(shop) == rows(fresh)


@pytest.mark.parametrize("table", [KEYS, VALUES], ids=["key", "value"])
def test_a_damaged_vector_is_made_again(shop: CollectionClient, recording: RecordingEncoder, table: Any) -> None:
    vectors = rows(shop)
    damage(shop, table)
    assert rows(shop) != vectors
    shop.add(*DEARER)
    assert recording.documents == {"Lamp", "Lamp\na lamp of brass", "a lamp of brass"}
    assert rows(shop) == vectors


def test_feedback_and_the_place_in_the_list_stay(shop: CollectionClient, recording: RecordingEncoder) -> None:
    shop.act("lamp", user_query="light for the table", client_id="ada")
    shop.add({"id": "rug", "text": "a rug"})
    listed = [one["id"] for one in shop.get("documents")["documents"]]
    recording.documents.clear()
    shop.add(*DEARER)
    assert recording.documents == set()
    assert [one["id"] for one in shop.get("documents")["documents"]] == listed
    hit = next(hit for hit in shop.search("light for the table", explain=True)["hits"] if hit["id"] == "lamp")
    assert hit["explain"]["parts"]["memory"] > 0


def test_a_document_that_is_not_encoded_waits_for_no_other(
    shop: CollectionClient, recording: RecordingEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode, may_encode = recording.encode, threading.Event()

    def waiting(texts: Sequence[str], *more: Any) -> Floats:
        assert not texts or may_encode.wait(DEADLINE_SECONDS)
        return encode(texts, *more)

    monkeypatch.setattr(recording, "encode", waiting)
    task = shop.post("documents", {"documents": [{"id": "rug", "text": "a rug"}, *DEARER]})
    # not when one is pending: the count is of the database, whose transaction ends before searches see the documents
    until(lambda: sorted(shop.ids("lamp", filter="price = 99")) == ["desk", "lamp"])
    assert shop.get()["counts"]["pending"] == 1
    may_encode.set()
    assert shop.ended_task(task)["result"]["passages"] == 1


def test_a_cluster_is_asked_for_the_other_documents_only(
    shop: CollectionClient, recording: RecordingEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def on_cluster(*given: Any) -> Iterator[Any]:
        asked.append(len(given[3]))
        raise cluster_encoding.ClusterFailed("no cluster")
        yield

    monkeypatch.setattr(indexing, "encoded_on_cluster", on_cluster)
    monkeypatch.setattr(indexing, "BULK", 2)
    shop.add(*DEARER, {"id": "rug", "text": "a rug"})
    assert asked == [], "one document is no bulk"
    shop.add(LAMP, DESK, {"id": "rug", "text": "a red rug"}, {"id": "mat", "text": "a mat"})
    assert asked == [2]
    assert recording.documents == {"a rug", "a red rug", "a mat"}


def test_the_estimate_of_passages_leaves_out_documents_that_are_not_encoded() -> None:
    progress = Progress(None, "task")  # type: ignore[arg-type]
    progress.total = 10
    progress.plan_passages(8, 0, 8)
    progress.plan_passages(1, 3)
    assert progress.passages == {"passages_done": 0, "passages_total": 6}
