"""A coordinator of partitions answers as the service that has all documents, and says when a partition is away."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from fastapi.testclient import TestClient

from benchmarks.postgres import PostgresServer
from service.partitions.calls import Calls
from service.partitions.coordinator import Coordinator
from service.partitions.coordinator_runtime import CoordinatorRuntime
from service.runtime.first_start import OtherDatabase
from service.searchers.document_part import DocumentPart
from service.searchers.searcher_runtime import SearcherRuntime
from service.storage.change_log import newest_position
from tests.faults.workloads import put_model_file
from tests.service.authorised import Keys
from tests.service.client import CollectionClient, create, good, opened, problem, runtime_of
from tests.service.partition_searches import SEARCHES
from tests.service.partitioned import LocalPartition, ThreadAnswer, partitioned, settings_of
from tests.service.test_searchers import HEADER, until

TREES = ("oak", "elm", "ash", "fir", "yew", "beech")
COLOURS = ("green", "brown", "red")
DOCUMENTS = [
    {
        "id": f"tree-{n:02}",
        "title": f"The {TREES[n % 6]}" if n % 4 else None,
        "text": f"A {COLOURS[n % 3]} {TREES[n % 6]} that is {'very ' * (n % 3)}old. It stands in garden number {n}.",
        "url": f"https://example.org/{n}",
        "metadata": {"colour": COLOURS[n % 3], "n": n, "tags": [TREES[n % 6], "tree"], "tall": n % 2 == 0},
    }
    for n in range(40)
]
SETTINGS = {"filterable": ["colour", "n", "tags", "tall"], "keys": ["title", "passage", "sentence"]}
VOLATILE = {"query_id", "took_ms", "timings_ms"}
Partitioned = tuple[TestClient, list[LocalPartition]]


@pytest.fixture
def address(postgres_server: PostgresServer, request: pytest.FixtureRequest) -> str:
    return postgres_server.database(f"{request.node.name[:40]}-{uuid4().hex[:8]}")


@pytest.fixture
def writer(address: str, tmp_path: Path) -> Iterator[TestClient]:
    with opened(tmp_path / "writer", database=address) as client:
        create(client, "wood", **SETTINGS).add(*DOCUMENTS)
        yield client


@pytest.fixture(scope="module")
def shared_address(postgres_server: PostgresServer) -> str:
    return postgres_server.database(f"shared-{uuid4().hex[:8]}")


@pytest.fixture(scope="module")
def shared_writer(shared_address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A writer for the tests that leave its documents and settings as they were."""
    with opened(tmp_path_factory.mktemp("shared") / "writer", database=shared_address) as client:
        create(client, "wood", **SETTINGS).add(*DOCUMENTS)
        yield client


@pytest.fixture(scope="module")
def shared_two(
    shared_writer: TestClient, shared_address: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Partitioned]:
    with partitioned(tmp_path_factory.mktemp("two"), shared_address, 2) as found:
        yield found


@pytest.fixture
def two(shared_writer: TestClient, shared_two: Partitioned) -> Partitioned:
    """A coordinator of two partitions of the shared writer. Both are there and follow it when a test begins."""
    client, partitions = shared_two
    until(lambda: client.get("/readyz").json().get("partitions_away") == 0)
    caught_up(shared_writer, client, partitions)
    return shared_two


def answers(client: TestClient, searches: list[dict[str, Any]] = SEARCHES) -> list[Any]:
    """Return the answers to searches but what differs between two equal searches."""
    found = []
    for search in searches:
        answer = good(client.post("/v1/collections/wood/search", json={"log": False, **search}))
        found.append({name: value for name, value in answer.items() if name not in VOLATILE})
    return found


def caught_up(writer: TestClient, client: TestClient, partitions: list[LocalPartition]) -> None:
    """Return when all have what the writer has committed, which may be more in the meantime."""

    def is_at_the_end(runtime: Any) -> bool:
        with runtime_of(writer).database.read() as connection:
            return bool(runtime.position == newest_position(connection))

    for runtime in (runtime_of(client), *(one.runtime for one in partitions)):
        until(partial(is_at_the_end, runtime))


@pytest.mark.parametrize("count", [1, 4])
def test_every_search_has_the_answer_of_the_service_with_all_documents(
    writer: TestClient, address: str, tmp_path: Path, count: int
) -> None:
    wood = CollectionClient(writer, "wood")
    wood.judge("old oak", "tree-06", 4)
    wood.judge("old oak", "tree-12", 3)
    wood.judge("an old oak", "tree-18", 2)
    for client_id in ("a", "b", "c", "d"):
        wood.act("tree-07", query_id=wood.search("elm", client_id=client_id)["query_id"], client_id=client_id)
    with partitioned(tmp_path, address, count) as (client, partitions):
        caught_up(writer, client, partitions)
        for search, found, expected in zip(SEARCHES, answers(client), answers(writer), strict=True):
            assert found == expected, search
        held = [sum(one.runtime.collections["wood"].generation.alive.tolist()) for one in partitions]
        assert sum(held) == 40
        assert count == 1 or max(held) < 20
        with runtime_of(client).database.read() as connection:
            assert connection.exec_driver_sql("SELECT count(*) FROM documents").scalar() == 0


def test_a_coordinator_follows_every_change(writer: TestClient, address: str, tmp_path: Path) -> None:
    wood = CollectionClient(writer, "wood")
    with partitioned(tmp_path, address, 3) as (client, partitions):

        def same() -> None:
            caught_up(writer, client, partitions)
            assert answers(client) == answers(writer)

        same()
        wood.add({"id": "new", "text": "a zelkova", "metadata": {"n": 99}}, {"id": "tree-05", "text": "a changed tree"})
        same()
        assert answers(client, [{"q": "zelkovva"}])[0]["hits"][0]["id"] == "new"
        assert writer.delete(f"{wood.path}/documents/tree-06").status_code == 204
        same()
        rule = {"query": {"contains": "old"}, "pin": [{"id": "new", "position": 2}], "hide": ["tree-00"]}
        assert writer.put(f"{wood.path}/rules/r", json=rule).is_success
        assert writer.put(f"{wood.path}/rules/s", json=rule | {"query": {"exact": "*"}}).is_success
        same()
        version = put_model_file(writer, 3.0, "wood", hop=0.5, context=0.4)
        good(writer.put(f"{wood.path}/models/aliases/champion", json={"version": version, "force": True}))
        same()
        assert answers(client)[0]["model"]["version"] == version
        good(writer.put(wood.path, json={"stop_words": ["very"], "memory_half_life_days": 30}))
        assert writer.put(f"{wood.path}/synonyms/s", json={"words": ["elm", "ash"]}).is_success
        same()
        assert writer.delete(wood.path).status_code == 202
        until(lambda: "wood" not in runtime_of(client).collections)
        assert client.post("/v1/collections/wood/search", json={"q": "elm"}).status_code == 404
        until(lambda: all("wood" not in one.runtime.collections for one in partitions))


def test_a_search_sees_the_state_of_its_watermark(shared_writer: TestClient, two: Partitioned) -> None:
    wood, (client, _) = CollectionClient(shared_writer, "wood"), two
    for n in range(5):
        put = shared_writer.put(f"{wood.path}/documents/quick-{n}", json={"text": f"quick fox {n}"})
        header = {HEADER: put.headers[HEADER]}
        found = client.post(f"{wood.path}/search", json={"q": f"quick fox {n}"}, headers=header)
        assert f"quick-{n}" in [hit["id"] for hit in good(found)["hits"]]
        assert shared_writer.delete(f"{wood.path}/documents/quick-{n}").status_code == 204


def test_an_answer_says_which_share_is_missing(shared_writer: TestClient, shared_address: str, tmp_path: Path) -> None:
    with partitioned(tmp_path, shared_address, 4) as (client, partitions):
        caught_up(shared_writer, client, partitions)
        whole = answers(client, [{"q": "old", "limit": 50}])[0]
        partitions[2].is_away = True
        found = answers(client, [{"q": "old", "limit": 50}])[0]
        assert found["degraded"] == ["partition_away"]
        assert found["missing_share"] == pytest.approx(0.25)
        lost = {one["id"] for one in whole["hits"]} - {one["id"] for one in found["hits"]}
        assert len(lost) == 10
        partitions[2].is_away = False
        until(lambda: answers(client, [{"q": "old", "limit": 50}])[0] == whole)


def test_a_setting_refuses_searches_without_all_partitions(
    shared_writer: TestClient, shared_address: str, tmp_path: Path
) -> None:
    with partitioned(tmp_path, shared_address, 2, answers_partially=False) as (client, partitions):
        caught_up(shared_writer, client, partitions)
        assert len(answers(client)) == len(SEARCHES)
        partitions[0].is_away = True
        answer = client.post("/v1/collections/wood/search", json={"q": "old"})
        assert problem(answer, 503, "partitions_away")
        assert answer.headers["Retry-After"] == "1"


def test_all_partitions_away_is_no_answer(two: Partitioned) -> None:
    client, partitions = two
    for one in partitions:
        one.is_away = True
    assert client.get("/readyz").json()["partitions_away"] == 0
    assert problem(client.post("/v1/collections/wood/search", json={"q": "old"}), 503, "partitions_away")
    problem(client.get("/readyz"), 503, "partitions_away")
    assert "softseek_searcher_partitions_away 2\n" in client.get("/metrics").text
    for one in partitions:
        one.is_away = False
    until(lambda: client.get("/readyz").status_code == 200)


def test_a_partition_that_loses_only_the_counts_of_words_is_missing_too(
    shared_writer: TestClient, two: Partitioned
) -> None:
    client, partitions = two
    answers(client, [{"q": "garden"}])
    partitions[1].refused = {"frequencies"}
    found = answers(client, [{"q": "old"}])[0]
    assert found["degraded"] == ["partition_away"]
    partitions[1].refused = set()
    until(lambda: answers(client) == answers(shared_writer))


def test_a_pinned_document_of_a_partition_that_goes_away_is_no_pin(shared_writer: TestClient, two: Partitioned) -> None:
    client, partitions = two
    path, pin = "/v1/collections/wood/rules/r", {"id": "tree-05", "position": 1}
    assert shared_writer.put(path, json={"query": {"contains": "old"}, "pin": [pin]}).is_success
    caught_up(shared_writer, client, partitions)
    assert answers(client, [{"q": "old"}])[0]["hits"][0]["id"] == "tree-05"
    with runtime_of(shared_writer).database.read() as connection:
        row = connection.exec_driver_sql("SELECT \"row\" FROM documents WHERE id = 'tree-05'").scalar()
    partitions[row % 2].refused = {"nominate", "evidence_of"}
    found = answers(client, [{"q": "old"}])[0]
    partitions[row % 2].refused = set()
    assert shared_writer.delete(path).is_success
    assert found["degraded"] == ["partition_away"]
    logits = [hit["logit"] for hit in found["hits"]]
    assert logits == sorted(logits, reverse=True), "a neighbour is at the position of the pin"
    assert len(logits) == 10


def test_partitions_of_another_deployment_are_away(
    shared_writer: TestClient, two: Partitioned, shared_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with partitioned(tmp_path, shared_address, 3) as (_, others):
        client, _ = two
        caught_up(shared_writer, client, others)
        runtime = runtime_of(client)
        assert isinstance(runtime, CoordinatorRuntime)
        calls = Calls(others[:2], answers_partially=True)
        monkeypatch.setattr(runtime, "answer_search", Coordinator(runtime, calls).answer)
        answer = client.post("/v1/collections/wood/search", json={"q": "old"})
        assert problem(answer, 503, "partitions_away")


@pytest.mark.usefixtures("shared_writer")
def test_a_directory_keeps_its_part(shared_address: str, tmp_path: Path) -> None:
    with partitioned(tmp_path, shared_address, 2):
        pass
    for folder, part in (("coordinator of 2", None), ("0 of 2", DocumentPart(1, 2)), ("1 of 2", DocumentPart(1, 3))):
        with pytest.raises(OtherDatabase):
            SearcherRuntime.open(settings_of(tmp_path / folder, shared_address), part=part)


class Silent:
    """A partition that does not answer until it is back."""

    def __init__(self) -> None:
        self.is_back = False
        self.asked: list[str] = []

    def ask(self, request: str, *arguments: Any) -> ThreadAnswer:
        self.asked.append(request)
        if not self.is_back:
            raise ConnectionError("the partition does not answer")
        return Echo().ask(request)


def test_searches_do_not_ask_a_partition_that_is_away_until_it_is_back() -> None:
    silent = Silent()
    calls = Calls([silent, Echo()], answers_partially=True)
    for _ in range(3):
        assert calls.all("search") == [None, "search"]
    assert silent.asked.count("search") == 1
    silent.is_back = True
    until(lambda: calls.all("search") == ["search", "search"])
    assert set(silent.asked) == {"search", "ping"}
    calls.close()


@dataclass(frozen=True)
class Late:
    """A partition whose answer does not come in time. It notes the times that its answers to a request get."""

    waited: list[float]
    noted: str = "search"
    pause: Callable[[float], None] = time.sleep

    def ask(self, request: str, *arguments: Any) -> "Late":
        return self if request == self.noted else Late([], pause=self.pause)

    def result(self, timeout_s: float) -> Any:
        self.waited.append(timeout_s)
        self.pause(timeout_s)
        raise TimeoutError


def test_all_partitions_of_a_round_have_one_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.partitions.calls.ANSWER_SECONDS", 0.1)
    waited: list[float] = []
    calls = Calls([Late(waited), Late(waited), Late(waited), Echo()], answers_partially=True)
    assert calls.all("search") == [None, None, None, "search"]
    calls.close()
    assert len(waited) == 3
    assert sum(waited) < 0.2


def test_the_first_answers_may_take_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.partitions.calls.ANSWER_SECONDS", 0.01)
    monkeypatch.setattr("service.partitions.calls.FIRST_SECONDS", 200.0)
    waited: list[float] = []
    calls = Calls([Late(waited, "ping", pause=lambda _: None), Echo()], answers_partially=True)
    calls.reach()
    assert 100 < waited[0] <= 200
    assert calls.away == 1, "it has not answered in the longer time either"
    calls.close()


class Faulty:
    """A partition that answers every request with an error."""

    def __init__(self) -> None:
        self.requests = 0

    def ask(self, request: str, *arguments: Any) -> ThreadAnswer:
        self.requests += 1
        future: Future[Any] = Future()
        future.set_exception(ValueError("this request fails"))
        return ThreadAnswer(future)


def test_an_error_of_a_partition_leaves_it_out_of_this_answer_alone() -> None:
    faulty = Faulty()
    calls = Calls([faulty, Echo()], answers_partially=True)
    for _ in range(3):
        assert calls.all("search") == [None, "search"]
    assert faulty.requests == 3


class Echo:
    """A partition that answers with the name of the request."""

    def ask(self, request: str, *arguments: Any) -> ThreadAnswer:
        future: Future[Any] = Future()
        future.set_result(request)
        return ThreadAnswer(future)


def test_bad_input_is_refused_before_a_partition_is_asked(two: Partitioned) -> None:
    client, partitions = two
    answers(client, [{"q": "old"}])
    for one in partitions:
        one.asked.clear()
    path = "/v1/collections/wood/search"
    assert problem(client.post(path, json={"q": "old", "filter": "colour = "}), 422, "invalid_filter")
    assert problem(client.post(path, json={"q": "old", "facets": ["x"]}), 422, "field_not_filterable")
    assert problem(client.post(path, json={"q": "old", "model": 9}), 404, "model_not_found")
    recommended = client.post("/v1/collections/wood/recommend", json={"like": ["tree-01"]})
    assert problem(recommended, 501, "not_in_partitions")
    put = client.put("/v1/collections/wood/documents/x", json={"text": "x"})
    assert problem(put, 421, "not_the_writer")
    assert not any(one.asked for one in partitions)


def test_the_filter_of_a_key_holds_in_every_partition(writer: TestClient, address: str, tmp_path: Path) -> None:
    wood = CollectionClient(writer, "wood")
    version = put_model_file(writer, 1.0, "wood", context=0.4)
    good(writer.put(f"{wood.path}/models/aliases/champion", json={"version": version, "force": True}))
    wood.judge("old", "tree-02", 4)
    keys = Keys.first(writer)
    search = {"q": "old", "limit": 50, "facets": ["colour"], "context": ["tree-00", "tree-02"], "explain": True}
    with partitioned(tmp_path, address, 3) as (client, partitions):
        key = keys.headers("search", filter="colour = 'red'")
        caught_up(writer, client, partitions)
        path = "/v1/collections/wood/search"
        found, expected = (good(one.post(path, json=search, headers=key)) for one in (client, writer))
        assert found["hits"] == expected["hits"]
        assert not [key for hit in found["hits"] for key in hit["explain"]["keys"] if key["kind"] == "query"]
        assert found["facets"] == expected["facets"] == {"colour": {"values": {"red": 13}}}
        assert client.post(path, json=search).status_code == 401


def test_a_click_on_an_impression_of_a_coordinator_is_accepted(shared_writer: TestClient, two: Partitioned) -> None:
    wood, (client, partitions) = CollectionClient(shared_writer, "wood"), two
    found = good(client.post(f"{wood.path}/search", json={"q": "old elm", "client_id": "a"}))
    runtime_of(client).impressions.flush()
    wood.act(found["hits"][-1]["id"], query_id=found["query_id"], client_id="a")
    caught_up(shared_writer, client, partitions)
    assert answers(client) == answers(shared_writer)
    assert good(client.get("/readyz"))["partitions"] == 2
