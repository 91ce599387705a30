"""Searchers: processes that answer from a copy of the PostgreSQL database, which follows its change log."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import text

from benchmarks.postgres import PostgresServer, make_database
from index.encoding.hashing_encoder import HashingEncoder
from service.operations.reencoding import reencode
from service.operations.reindexing import reindex
from service.runtime.first_start import OtherDatabase
from service.runtime.runtime import Runtime
from service.searchers.searcher_app import create_searcher_app
from service.searchers.searcher_runtime import SearcherRuntime
from service.settings import Settings
from service.storage.change_log import continues, newest_position
from service.storage.database import UnsuitableDatabase
from tests.faults.workloads import put_model_file
from tests.service.authorised import Keys, bearer
from tests.service.client import (
    DEADLINE_SECONDS,
    CollectionClient,
    create,
    event,
    good,
    opened,
    problem,
    runtime_of,
)
from tests.service.test_checksums import filled

HEADER = "X-Softseek-Watermark"
QUERIES = ("old oak", "young", "Old tree", "nothing of it", "elm")


@pytest.fixture(autouse=True)
def _never_old(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no answer say that its copy is old because the machine stood still."""
    monkeypatch.setattr("service.searchers.searcher_runtime.OLD_SECONDS", 10.0 * DEADLINE_SECONDS)


@pytest.fixture
def address(postgres_server: PostgresServer, request: pytest.FixtureRequest) -> str:
    return postgres_server.database(re.sub(r"\W+", "_", request.node.name[-50:]))


@contextmanager
def searching(data: Path, address: str) -> Iterator[TestClient]:
    """Yield a client of a searcher."""
    settings = Settings(encoder="hashing", data=data, log_level="warning", role="searcher", database=address)
    with TestClient(create_searcher_app(settings), raise_server_exceptions=False) as client:
        yield client


def searcher_of(client: TestClient) -> SearcherRuntime:
    runtime = runtime_of(client)
    assert isinstance(runtime, SearcherRuntime)
    return runtime


def until(look: Callable[[], Any]) -> Any:
    """Return the first value of a function that is true."""
    end = time.monotonic() + DEADLINE_SECONDS
    while not (found := look()):
        assert time.monotonic() < end
        time.sleep(0.01)
    return found


def caught_up(writer: TestClient, client: TestClient) -> None:
    """Return when a searcher has all that the writer has committed. Threads of the writer may commit meanwhile."""

    def has_all() -> bool:
        position = searcher_of(client).position
        with runtime_of(writer).database.read() as connection:
            return position == newest_position(connection)

    until(has_all)


def answers(client: TestClient, name: str = "wood", has_numbers: bool = True) -> list[Any]:
    """Return the answers to all queries but what differs between two searches."""
    wood = CollectionClient(client, name)
    found = [wood.search(query, explain=True, log=False, limit=50) for query in QUERIES]
    if has_numbers:
        found += [wood.search(query, filter="n >= 1", log=False) for query in QUERIES]
    return [[one["hits"], one["model"], one["generation"], one["degraded"]] for one in found]


def test_a_searcher_answers_as_the_writer_through_every_change(address: str, tmp_path: Path) -> None:
    with opened(tmp_path / "writer", database=address) as writer:
        wood = filled(writer)
        with searching(tmp_path / "one", address) as one, searching(tmp_path / "two", address) as two:

            def same() -> None:
                for client in (one, two):
                    caught_up(writer, client)
                    assert answers(client) == answers(writer)

            same()
            wood.add({"id": "ash", "text": "an old ash", "metadata": {"n": 4}}, {"id": "fir", "text": "a young fir"})
            same()
            wood.add({"id": "ash", "text": "an ash that is not old", "metadata": {"n": 5}})
            same()
            wood.judge("elm", "fir", 4)
            wood.act("ash", query_id=wood.search("Old tree")["query_id"])
            same()
            wood.judge("elm", "fir", None)
            good(writer.patch(f"{wood.path}/documents/ash", json={"metadata": {"n": 1}}))
            same()
            assert writer.delete(f"{wood.path}/documents/fir").status_code == 204
            same()
            rule = {"query": {"contains": "old"}, "pin": [{"id": "ash", "position": 1}]}
            assert writer.put(f"{wood.path}/rules/r", json=rule).is_success
            same()
            good(writer.put(wood.path, json={"memory_half_life_days": 30, "memory_max_mb": 1, "stop_words": ["of"]}))
            assert writer.put(f"{wood.path}/synonyms/s", json={"words": ["elm", "ash"]}).is_success
            same()
            for changes in ({"keys": ["passage", "sentence"]}, {"language": "german"}, {"keys": ["passage"]}):
                assert reindex(runtime_of(writer), runtime_of(writer).collection("wood"), changes)
                same()
            create(writer, "other").add({"id": "elm", "text": "another elm"})
            good(writer.post("/v1/collections/swap", json={"a": "other", "b": "wood"}))
            for client in (one, two):
                caught_up(writer, client)
                assert answers(client, "other") == answers(writer, "other")
                assert answers(client, has_numbers=False) == answers(writer, has_numbers=False)
            assert writer.delete("/v1/collections/other").status_code == 202
            until(lambda: one.post("/v1/collections/other/search", json={"q": "elm"}).status_code == 404)


def test_a_searcher_follows_while_documents_are_encoded_again(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path / "writer", database=address) as writer:
        filled(writer)
    monkeypatch.setattr("service.runtime.runtime.load_encoder", lambda *_: HashingEncoder(dim=96))
    with opened(tmp_path / "writer", database=address) as writer, searching(tmp_path / "one", address) as one:
        wood = runtime_of(writer).collection("wood")
        assert reencode(runtime_of(writer), wood, lambda *_: caught_up(writer, one))
        caught_up(writer, one)
        assert answers(one) == answers(writer)


def test_a_promotion_and_a_rollback_reach_the_searcher(address: str, tmp_path: Path) -> None:
    with opened(tmp_path / "writer", database=address) as writer:
        wood = CollectionClient(writer)
        wood.add({"id": "oak", "text": "an old oak"}, {"id": "elm", "text": "a young elm"})
        with searching(tmp_path / "one", address) as one:
            assert CollectionClient(one).search("elm", log=False)["model"]["version"] == 0
            version = put_model_file(writer, 3.0)
            good(writer.put(f"{wood.path}/models/aliases/champion", json={"version": version, "force": True}))
            caught_up(writer, one)
            assert answers(one, "default", False) == answers(writer, "default", False)
            assert CollectionClient(one).search("elm", log=False)["model"]["version"] == version
            good(writer.put(f"{wood.path}/models/aliases/champion", json={"version": 0, "force": True}))
            caught_up(writer, one)
            assert CollectionClient(one).search("elm", log=False)["model"]["version"] == 0


def test_a_searcher_starts_and_answers_without_the_database_and_says_so(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path / "writer", database=address) as writer:
        filled(writer)
        expected = [one[0] for one in answers(writer)]
    with searching(tmp_path / "one", address) as one:
        assert [found[0] for found in answers(one)] == expected
    monkeypatch.setattr("service.searchers.searcher_runtime.OLD_SECONDS", 0.0)
    with searching(tmp_path / "one", address.replace("127.0.0.1:", "127.0.0.1:1")) as one:
        until(lambda: CollectionClient(one, "wood").search("elm")["degraded"] == ["copy_is_old"])
        assert [found[0] for found in answers(one)] == expected
        standing = good(one.get("/readyz"))["searcher"]
        assert standing["age_seconds"] is None
        searcher_of(one).impressions.flush()
        assert good(one.get("/readyz"))["searcher"]["impressions_waiting"] > 0
        assert "softseek_searcher_impressions_waiting" in one.get("/metrics").text
    with searching(tmp_path / "one", address) as one:
        until(lambda: searcher_of(one).impressions.waiting == 0)
        with searcher_of(one).source.read() as connection:
            assert connection.execute(text("SELECT count(*) FROM queries WHERE text = 'elm'")).scalar() > 0


def test_impressions_are_stored_once_and_events_refer_to_them(address: str, tmp_path: Path) -> None:
    with opened(tmp_path / "writer", database=address) as writer:
        wood = filled(writer)
        with searching(tmp_path / "one", address) as one:
            found = CollectionClient(one, "wood").search("young")
            runtime = searcher_of(one)
            runtime.impressions.flush()
            until(lambda: runtime.impressions.waiting == 0)
            click = event(found["hits"][0]["id"], query_id=found["query_id"])
            assert wood.post("events", click)["accepted"] == 1
            wanted = text("SELECT query_id, collection_id, created_at FROM queries")
            with runtime.source.read() as connection:
                before = connection.execute(wanted).all()
                stored = connection.execute(text("SELECT * FROM queries")).mappings().all()
            assert found["query_id"] in [row.query_id for row in before]
            again = [{("query_key" if name == "source" else name): row[name] for name in row} for row in stored]
            gone = [row | {"query_id": "gone", "collection_id": 99} for row in again]
            runtime.source.deliver([*again, *gone])
            with runtime.source.read() as connection:
                assert connection.execute(wanted).all() == before
            caught_up(writer, one)
            assert answers(one) == answers(writer)


def test_an_impression_of_before_an_erasure_has_no_client(address: str, tmp_path: Path) -> None:
    with opened(tmp_path / "writer", database=address) as writer:
        wood = filled(writer)
        with searching(tmp_path / "one", address) as one:
            runtime = searcher_of(one)
            deliver, kept = runtime.source.deliver, []
            runtime.impressions._deliver = kept.append
            CollectionClient(one, "wood").search("young", client_id="anna", session_id="tour")
            runtime.impressions.flush()
            wood.search("elm", client_id="anna")
            wood.ended_task(good(writer.post("/v1/erasures", json={"client": "anna"})))
            caught_up(writer, one)
            assert b"anna" not in b"".join(path.read_bytes() for path in (tmp_path / "one").glob("softseek.db*"))
            deliver(kept[0])
            with runtime.source.read() as connection:
                found = connection.execute(text("SELECT client_id, session_id FROM queries WHERE text = 'young'")).all()
            assert found == [(None, None)]


def test_keys_of_the_writer_are_keys_of_the_searcher(address: str, tmp_path: Path) -> None:
    with opened(tmp_path / "writer", database=address) as writer, searching(tmp_path / "one", address) as one:
        keys = Keys.first(writer)
        made = keys.make("search")
        caught_up(writer, one)
        search = "/v1/collections/default/search"
        assert one.post(search, json={"q": "a"}).status_code == 401
        assert one.post(search, json={"q": "a"}, headers=bearer(made["key"])).status_code == 200
        assert keys.act("DELETE", f"/v1/keys/{made['id']}").status_code == 204
        caught_up(writer, one)
        assert one.post(search, json={"q": "a"}, headers=bearer(made["key"])).status_code == 401


def test_a_searcher_refuses_what_writes(address: str, tmp_path: Path) -> None:
    with opened(tmp_path / "writer", database=address), searching(tmp_path / "one", address) as one:
        for method, path in (("POST", "documents"), ("GET", "documents"), ("POST", "events"), ("DELETE", "")):
            answer = one.request(method, f"/v1/collections/default/{path}", json={})
            problem(answer, 421, "not_the_writer")
        assert one.get("/livez").status_code == 200


def test_a_search_sees_the_state_that_it_requires(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.http.watermarks.WAIT_SECONDS", 0.05)
    search = "/v1/collections/default/search"
    with opened(tmp_path / "writer", database=address) as writer, searching(tmp_path / "one", address) as one:
        posted = {"documents": [{"id": "oak", "text": "an old oak"}]}
        answer = writer.post("/v1/collections/default/documents?wait=60", json=posted)
        assert answer.headers[HEADER] == "default:1:1"
        caught_up(writer, one)
        found = one.post(search, json={"q": "oak"}, headers={HEADER: answer.headers[HEADER]})
        assert [hit["id"] for hit in found.json()["hits"]] == ["oak"]
        assert found.headers[HEADER] == "default:1:1"
        for client in (one, writer):
            problem(client.post(search, json={"q": "a"}, headers={HEADER: "default:1:9"}), 503, "watermark_not_reached")
            problem(client.post(search, json={"q": "a"}, headers={HEADER: "default:2:1"}), 409, "other_epoch")
            assert client.post(search, json={"q": "a"}, headers={HEADER: "other:1:9"}).is_success
            for wrong in ("default", "default:1:-1"):
                problem(client.post(search, json={"q": "a"}, headers={HEADER: wrong}), 422, "invalid_request")


def test_a_multi_search_sees_the_states_that_it_requires(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.http.watermarks.WAIT_SECONDS", 0.05)
    with opened(tmp_path / "writer", database=address) as writer, searching(tmp_path / "one", address) as one:
        create(writer, "shop")
        create(writer, "secret")
        for name in ("default", "shop", "secret"):
            posted = {"documents": [{"id": "oak", "text": "an old oak"}]}
            writer.post(f"/v1/collections/{name}/documents?wait=60", json=posted)
        caught_up(writer, one)
        key = Keys.first(writer).headers("search", collections=["default", "shop"])
        caught_up(writer, one)
        searches = [{"collection": name, "q": "oak"} for name in ("shop", "default", "shop", "secret")]

        def ask(client: TestClient, wanted: str) -> Any:
            return client.post("/v1/multi-search", json={"searches": searches}, headers=key | {HEADER: wanted})

        for client in (one, writer):
            assert ask(client, "default:1:1, shop:1:1").headers[HEADER] == "shop:1:1, default:1:1"
            problem(ask(client, "shop:1:1,default:1:9"), 503, "watermark_not_reached")
            problem(ask(client, "shop:2:1"), 409, "other_epoch")
            problem(ask(client, "shop:1:1,shop"), 422, "invalid_request")
            for unseen in ("secret:1:9", "nowhere:1:9", "secret:2:1"):
                assert ask(client, unseen).status_code == 200, "a caller learns nothing of other collections"


def test_a_search_waits_for_the_state_that_it_requires(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.http.watermarks.WAIT_SECONDS", DEADLINE_SECONDS)
    with opened(tmp_path / "writer", database=address) as writer, searching(tmp_path / "one", address) as one:
        for number in range(20):
            posted = {"documents": [{"id": f"d{number}", "text": f"document n{number}"}]}
            answer = writer.post("/v1/collections/default/documents?wait=60", json=posted)
            seen = {HEADER: answer.headers[HEADER]}
            found = one.post("/v1/collections/default/search", json={"q": f"n{number}"}, headers=seen)
            assert found.json()["hits"][0]["id"] == f"d{number}"


def test_a_database_with_another_history_is_compared_row_by_row(address: str, tmp_path: Path) -> None:
    with opened(tmp_path / "writer", database=address) as writer:
        wood = filled(writer)
        with searching(tmp_path / "one", address) as one:
            assert answers(one) == answers(writer)
        wood.add({"id": "ash", "text": "an old ash", "metadata": {"n": 4}})
        assert writer.delete(f"{wood.path}/documents/elm").status_code == 204
        with runtime_of(writer).database.write() as connection:
            connection.execute(text("UPDATE changes SET at = at + interval '1 second'"))
        with searching(tmp_path / "one", address) as one:
            caught_up(writer, one)
            assert answers(one) == answers(writer)
            with runtime_of(writer).database.read() as connection:
                newest = newest_position(connection)
                assert continues(connection, newest)


def test_old_changes_are_forgotten_and_a_searcher_that_was_away_compares_all_rows(address: str, tmp_path: Path) -> None:
    with opened(tmp_path / "writer", database=address) as writer:
        wood = filled(writer)
        with searching(tmp_path / "one", address) as one:
            assert answers(one) == answers(writer)
        wood.add({"id": "ash", "text": "an old ash", "metadata": {"n": 4}})
        database = runtime_of(writer).database
        with database.write() as connection:
            connection.execute(text("UPDATE changes SET at = at - interval '8 days'"))
        database.tidy()
        with database.read() as connection:
            assert connection.execute(text("SELECT count(*) FROM changes")).scalar() == 1
        with searching(tmp_path / "one", address) as one:
            caught_up(writer, one)
            assert answers(one) == answers(writer)


def test_a_directory_is_of_one_role(address: str, tmp_path: Path) -> None:
    alone = {"encoder": "hashing", "log_level": "warning"}
    searcher: dict[str, Any] = {**alone, "role": "searcher", "database": address}
    with pytest.raises(UnsuitableDatabase, match="start one first"):
        SearcherRuntime.open(Settings(data=tmp_path / "early", **searcher))
    with opened(tmp_path / "writer", database=address), searching(tmp_path / "one", address):
        pass
    with opened(tmp_path / "sqlite"):
        pass
    for data in ("writer", "sqlite"):
        with pytest.raises(OtherDatabase, match="directory of its own"):
            SearcherRuntime.open(Settings(data=tmp_path / data, **searcher))
    for database in (None, address):
        with pytest.raises(OtherDatabase, match="--role searcher"):
            Runtime.open(Settings(data=tmp_path / "one", database=database, **alone))


@pytest.mark.parametrize("fails", [False, True])
def test_an_index_of_another_history_with_the_same_watermark_is_not_used(
    postgres_server: PostgresServer, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    """A backup is restored: the numbers of rows and the watermarks are as before, and the texts are others."""
    with opened(tmp_path / "before", database=address) as writer:
        CollectionClient(writer).add({"id": "base", "text": "an old base"})
    place, name = address.rsplit("/", 1)
    make_database(postgres_server.address, f"{name}_back", name)
    with opened(tmp_path / "before", database=address) as writer, searching(tmp_path / "one", address) as one:
        CollectionClient(writer).add({"id": "lamp", "text": "a lost copper lamp"})
        caught_up(writer, one)
        searcher_of(one).save()
    restored = f"{place}/{name}_back"
    with opened(tmp_path / "after", database=restored) as writer:
        CollectionClient(writer).add({"id": "tree", "text": "a green garden tree"})
        if fails:  # once, after the rows are copied: all is loaded anew
            use = SearcherRuntime._use
            failures = iter([OSError()])

            def use_or_fail(runtime: SearcherRuntime, effects: Any) -> None:
                runtime._is_loaded = False
                for error in failures:
                    raise error
                use(runtime, effects)

            monkeypatch.setattr(SearcherRuntime, "_use", use_or_fail)
        with searching(tmp_path / "one", restored) as one:
            until(lambda: searcher_of(one)._is_loaded and searcher_of(one).age_seconds is not None)
            caught_up(writer, one)
            for query in ("green garden", "copper lamp"):
                assert CollectionClient(one).ranking(query) == CollectionClient(writer).ranking(query)
