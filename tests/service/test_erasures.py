"""After an erasure no file holds the client's id or its queries, and the ranking is as if the client had never come."""

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, select, update

from service.erasures import repository
from service.erasures.receipts import checksum, new_receipt, subject_hash
from service.operations.repository import replace_answer
from service.runtime.jobs import too_many_tasks
from service.storage.database import Database, DatabaseRead
from service.storage.tables import EVENTS
from service.training.repository import insert_run
from tests.service.client import CollectionClient, create, event, good, opened, problem, runtime_of
from tests.service.test_cli import Run, run

pytestmark = pytest.mark.usefixtures("forked_training")

__all__ = ["run"]

CLIENT = "canary-client-7f3a"
SESSION = "canary-session-51c2"
CANARY = "zqxcanary"
"""A word in the queries of the erased client that no document and no other query has."""
SHARED = "which tree is tall"
TREES = "oak pine birch willow maple cedar larch aspen hazel alder elm yew beech rowan holly".split()
FILLER = "fern moss heath thyme sage mint dill basil sorrel yarrow nettle rue borage arnica lovage".split()


def visit(trees: CollectionClient, client: str, session: str, queries: list[str], document: str) -> None:
    """Search, click the document, and like the session without naming the client."""
    for query in queries:
        found = trees.search(query, client_id=client, session_id=session)
        trees.act(document, query_id=found["query_id"], client_id=client, session_id=session)
        trees.act(document, "purchase", query_id=found["query_id"])
    trees.search(f"{queries[0]} again", session_id=session)
    trees.post("events", event(None, "thumbs_up", session_id=session))


def ordinary(trees: CollectionClient) -> None:
    """Add documents, and the feedback of other people."""
    trees.add(*({"id": tree, "text": f"the {tree} is a tall tree of the wood"} for tree in TREES))
    trees.add(*({"id": herb, "text": f"{herb} grows on dry soil"} for herb in FILLER))
    ratings = [{"query": f"{name} {n}", "document_id": name, "rating": 4} for name in TREES + FILLER[:7] for n in "a"]
    trees.post("judgments", {"judgments": ratings})
    visit(trees, "other-client", "other-session", [SHARED, "tree with cones"], "pine")
    for client in ("bob", "cid"):
        visit(trees, client, f"session of {client}", [SHARED], "pine")


def found_in(data: Path, *needles: str) -> dict[str, int]:
    """Return path -> number of occurrences of the needles in the bytes of the file, for files with any."""
    counts = {}
    for path in sorted(Path(parent, name) for parent, _, names in os.walk(data) for name in names):
        with suppress(FileNotFoundError):  # the service has just deleted it
            content = path.read_bytes().lower()
            counts[path.relative_to(data).as_posix()] = sum(content.count(one.lower().encode()) for one in needles)
    return {name: count for name, count in counts.items() if count}


def rankings(trees: CollectionClient) -> list[list[tuple[str, float, float]]]:
    return [trees.ranking(query, model=0) for query in (SHARED, f"{CANARY} shelter", "tree with cones", "dry soil")]


def erase(service: TestClient, **wanted: str) -> dict[str, Any]:
    """Erase, and return the receipt."""
    task = CollectionClient(service).ended_task(good(service.post("/v1/erasures", json=wanted)))
    assert task["status"] == "succeeded", task
    receipt: dict[str, Any] = task["result"]
    return receipt


@pytest.fixture(scope="module")
def never(tmp_path_factory: pytest.TempPathFactory) -> list[list[tuple[str, float, float]]]:
    """The rankings of a service that never saw the client."""
    with opened(tmp_path_factory.mktemp("never") / "data") as client:
        trees = create(client, "trees")
        ordinary(trees)
        return rankings(trees)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], dict[str, Any]]:
    """A data directory after an erasure, its receipt, and what was seen before and while the service ran."""
    data = tmp_path_factory.mktemp("erased") / "data"
    with opened(data) as client:
        trees = create(client, "trees")
        ordinary(trees)
        visit(trees, CLIENT, SESSION, [f"{CANARY} shelter", f"{CANARY} bark {'x' * 900}", SHARED], "larch")
        (data / "snapshots").mkdir(exist_ok=True)
        for name in ("before", "after"):
            (data / "snapshots" / name).write_bytes(name.encode())
        os.utime(data / "snapshots" / "before", (1_000_000_000, 1_000_000_000))  # rows of then may be replaced
        body = {"q": f"{CANARY} shelter", "explain": True, "client_id": CLIENT}
        answer = client.post(f"{trees.path}/search", json=body)
        kept = {"request_sha256": "", "status": 200, "headers": {}, "body": answer.content}
        with runtime_of(client).database.write() as connection:  # as earlier releases stored it
            replace_answer(connection, "once", kept)
        trees.search(SHARED, client_id=CLIENT)
        assert trees.train(promote="never", budget_seconds=1, click_reading="naive")["status"] == "succeeded"
        for thread in runtime_of(client).training.threads:
            thread.join()  # it removes the files of the run while they are counted
        facts = {"before": found_in(data, CLIENT, SESSION, CANARY), "rankings": rankings(trees)}
        receipt = erase(client, client=CLIENT)
        facts |= {"while open": found_in(data, CLIENT, SESSION, CANARY), "erased": rankings(trees)}
        facts |= {"counts": trees.get()["counts"], "listed": good(client.get("/v1/erasures"))}
        facts["suggestions"] = trees.get("suggestions", q="which")["suggestions"]
    return data, receipt, facts


@pytest.mark.sqlite
def test_a_raw_scan_finds_the_client_before_and_nothing_after(seen: Any) -> None:
    data, _, facts = seen
    assert facts["before"].keys() & {"softseek.db", "softseek.db-wal"}
    assert facts["while open"] == {}
    assert found_in(data, CLIENT, SESSION, CANARY) == {}


def test_the_ranking_is_as_if_the_client_had_never_come(seen: Any, never: Any) -> None:
    data, _, facts = seen
    assert facts["rankings"] != never
    assert facts["erased"] == never
    with opened(data) as client:
        assert rankings(CollectionClient(client, "trees")) == never


def test_the_feedback_of_other_clients_stays(seen: Any) -> None:
    _, _, facts = seen
    assert facts["counts"]["events"] == 4 * 2 + 3
    assert facts["suggestions"] == [{"q": SHARED, "clicks": 6}]


def test_the_receipt_names_counts_models_and_snapshots_but_not_the_client(seen: Any) -> None:
    _, receipt, facts = seen
    # searches: three with clicks, one without a client, two more; events: two for each click, one about the session
    wanted = {"impressions": 6, "events": 7, "judgments": 0, "memory": 6, "idempotent_answers": 1}
    assert receipt["erased"] == wanted
    assert [(one["collection"], one["version"]) for one in receipt["models"]] == [("trees", 1)]
    assert [one["file"] for one in receipt["snapshots"]] == ["after", "before"]
    assert (receipt["status"], receipt["kind"], receipt["canceled_training_runs"]) == ("done", "client", [])
    assert facts["listed"] == {"erasures": [receipt]}
    assert receipt["sha256"] == checksum(receipt)
    assert CLIENT not in json.dumps(receipt)
    subject = receipt["subject"]
    assert subject["hash"] == subject_hash("client", CLIENT, bytes.fromhex(subject["salt"]))


def test_the_database_is_sound_after_an_erasure(seen: Any) -> None:
    data, _, _ = seen
    with closing(sqlite3.connect(data / "softseek.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        assert connection.execute("SELECT status, subject FROM erasures").fetchall() == [("done", None)]


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with opened(tmp_path / "data") as client:
        CollectionClient(client).add(*({"id": tree, "text": f"the {tree} is a tall tree"} for tree in TREES))
        yield client


def test_a_session_and_a_user_are_erased_alone(client: TestClient) -> None:
    trees = CollectionClient(client)
    for session in ("s-1", "s-2"):
        found = trees.search(SHARED, session_id=session, client_id="ada")
        trees.act("oak", query_id=found["query_id"], session_id=session, client_id="ada")
    assert erase(client, session="s-1")["erased"] | {"idempotent_answers": 0} == {
        "impressions": 1, "events": 1, "judgments": 0, "memory": 1, "idempotent_answers": 0,
    }  # fmt: skip
    mine = trees.search("birch bark")
    trees.post("events", event("birch", query_id=mine["query_id"]) | {"user_id": "u-9"})
    trees.post("events", event("birch", user_query=SHARED) | {"user_id": "u-10"})
    trees.judge(SHARED, "elm", 4, rater="u-9")
    trees.judge(SHARED, "elm", 4, rater="u-10")
    erased = erase(client, user="u-9")["erased"]
    assert (erased["impressions"], erased["events"], erased["judgments"], erased["memory"]) == (1, 1, 1, 2)
    counts = trees.get()["counts"]
    assert (counts["events"], counts["judgments"], counts["keys"]["query"]) == (2, 1, 3)


@pytest.mark.parametrize(
    ("times", "trained_from"),
    [
        ((("mine", "05-01"), ("mine", "05-02"), ("later", "05-02")), "2026-05-01T00:00:00.000Z"),
        ((("mine", "05-02"), ("later", "05-01")), ""),
        ((("mine", "05-09"), ("mine", "05-03")), ""),
        ((("mine", "05-09"), ("mine", "05-03"), ("later", "05-04")), ""),
    ],
)
def test_all_models_are_named_if_the_clock_was_ahead_when_rows_were_stored(
    client: TestClient, times: tuple[tuple[str, str], ...], trained_from: str
) -> None:
    trees = create(client, f"ahead-{'-'.join(day for _, day in times)}")
    trees.add({"id": "oak", "text": "the oak is a tall tree"})
    for at, (name, day) in enumerate(times):
        trees.act("oak", client_id=name, user_query=f"query {at}")
        newest = select(func.max(EVENTS.c.id)).where(EVENTS.c.collection_id == trees.id).scalar_subquery()
        changed = update(EVENTS).where(EVENTS.c.id == newest)
        with runtime_of(client).database.write() as connection:
            connection.execute(changed.values(created_at=f"2026-{day}T00:00:00.000Z"))
    assert trained_from_of(client, trees, "mine") == trained_from


def test_all_models_are_named_if_a_time_lies_ahead_of_now(client: TestClient) -> None:
    trees = create(client, "ahead-of-now")
    trees.add({"id": "oak", "text": "the oak is a tall tree"})
    trees.act("oak", client_id="mine", user_query="a tree")
    with runtime_of(client).database.write() as connection:
        mine = update(EVENTS).where(EVENTS.c.collection_id == trees.id)
        connection.execute(mine.values(created_at="2100-01-01T00:00:00.000Z"))
    assert trained_from_of(client, trees, "mine") == ""


def trained_from_of(client: TestClient, trees: CollectionClient, name: str) -> str:
    with runtime_of(client).database.read() as connection:
        found = repository.subject_rows(connection, trees.id, "client", name)
    assert found.events
    return found.trained_from


def test_an_erasure_of_a_user_reads_the_bodies_of_the_events_with_that_user_alone(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    trees = CollectionClient(client)
    trees.add({"id": "oak", "text": "a tall tree"})
    for user in ("5", "15", "55"):
        trees.act("oak", user_query="tree number 5", user_id=user)
    read: list[Any] = []
    parsed = repository._object
    monkeypatch.setattr(repository, "_object", lambda stored: read.append(stored) or parsed(stored))
    with runtime_of(client).database.read() as connection:
        assert len(repository.subject_rows(connection, trees.id, "user", "5").events) == 1
    assert len(read) == 1


def test_rows_without_a_client_are_followed_from_search_to_session_and_back(client: TestClient) -> None:
    trees = CollectionClient(client)
    trees.act("oak", user_query="the first words", client_id="bob", session_id="s1")
    found = trees.search(f"{CANARY} shelter", session_id="s1")
    trees.act("elm", query_id=found["query_id"])
    trees.post("events", event("elm", query_id=found["query_id"], session_id="s2"))
    trees.act("yew", user_query=f"{CANARY} bark", session_id="s2")
    trees.act("holly", user_query="other words", session_id="s3")
    erased = erase(client, client="bob")["erased"]
    assert (erased["impressions"], erased["events"]) == (1, 4)
    assert trees.get()["counts"]["events"] == 1


@pytest.mark.parametrize(
    "subject", [{"client": "bob"}, {"session": "s1"}, {"user": "u-1"}], ids=lambda one: next(iter(one))
)
def test_the_text_of_an_erased_search_leaves_the_events_of_others(client: TestClient, subject: dict[str, str]) -> None:
    trees = CollectionClient(client)
    found = trees.search(f"{CANARY} shelter", client_id="bob", session_id="s1")["query_id"]
    trees.post("events", event("oak", query_id=found, client_id="bob", session_id="s1") | {"user_id": "u-1"})
    ann = {"client_id": "ann", "session_id": "s2", "user_id": "u-2"}
    trees.post("events", event("elm", query_id=found) | ann)
    trees.post("events", event(None, "page_view", query_id=found) | ann)
    trees.post("events", event("yew", query_id=found, user_query="my own words") | ann)
    trees.post("events", event("fir", "page_view", user_query="my own words") | ann)
    trees.post("events", event("yew", query_id=trees.search("tall", client_id="ann")["query_id"]) | ann)
    erased = erase(client, **subject)["erased"]
    assert (erased["impressions"], erased["events"], erased["memory"]) == (1, 4, 3)
    assert trees.get()["counts"]["events"] == 2
    assert found_in(runtime_of(client).settings.data, CANARY) == {}


def test_an_event_of_another_client_with_the_same_words_of_its_own_stays(client: TestClient) -> None:
    trees = CollectionClient(client)
    found = trees.search(SHARED, client_id="bob")["query_id"]
    trees.act("elm", query_id=found, user_query=SHARED, client_id="ann")
    assert erase(client, client="bob")["erased"]["events"] == 0
    assert trees.get()["counts"]["events"] == 1


def test_only_the_named_collection_is_erased_and_a_second_erasure_finds_nothing(client: TestClient) -> None:
    other = create(client, "other")
    for one in (CollectionClient(client), other):
        one.search(SHARED, client_id="ada")
    assert erase(client, client="ada", collection="other")["erased"]["impressions"] == 1
    receipt = erase(client, client="ada", collection="other")
    assert (receipt["erased"]["impressions"], receipt["first_at"]) == (0, None)
    assert erase(client, client="ada")["collections"] == ["default", "other"]


@pytest.mark.parametrize(
    "wanted", [{}, {"client": "a", "user": "b"}, {"client": ""}, {"client": "x" * 513}, {"clients": "a"}]
)
def test_an_erasure_names_exactly_one_subject(client: TestClient, wanted: dict[str, str]) -> None:
    problem(client.post("/v1/erasures", json=wanted), 422, "invalid_request")
    assert good(client.get("/v1/erasures")) == {"erasures": []}


def test_an_erasure_in_an_unknown_collection_is_refused(client: TestClient) -> None:
    problem(client.post("/v1/erasures", json={"client": "a", "collection": "nowhere"}), 404, "collection_not_found")


def test_an_erasure_without_a_place_for_its_task_is_not_recorded(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    CollectionClient(client).search(f"{CANARY} shelter", client_id=CLIENT)
    once = {"Idempotency-Key": "erase once"}

    def full(_: Any) -> None:
        raise too_many_tasks()

    with monkeypatch.context() as patch:
        patch.setattr(runtime_of(client).jobs, "_delete_oldest", full)
        problem(client.post("/v1/erasures", json={"client": CLIENT}, headers=once), 503, "too_many_tasks")
    assert good(client.get("/v1/erasures")) == {"erasures": []}
    again = good(client.post("/v1/erasures", json={"client": CLIENT}, headers=once))
    receipt = CollectionClient(client).ended_task(again)["result"]
    assert (receipt["status"], receipt["erased"]["impressions"]) == ("done", 1)


def test_an_erasure_that_was_killed_before_it_deleted_is_done_at_the_next_start(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with opened(data) as client:
        trees = create(client, "trees")
        trees.add({"id": "oak", "text": "the oak is tall"})
        trees.act("oak", user_query=f"{CANARY} shelter", client_id=CLIENT)
        runtime = runtime_of(client)
        wanted = {"seed": 0, "promote": "auto"}
        with runtime.database.write() as connection:
            insert_run(connection, trees.id, "run-1", wanted, {"champion": 0})
            receipt = new_receipt("erasure-1", "client", CLIENT, ["trees"])
            repository.insert_erasure(connection, CLIENT, receipt)
        (runtime.staging / "run-1").mkdir()
        (runtime.staging / "run-1" / "texts.json").write_text(CANARY)
    with opened(data) as client:
        (receipt,) = good(client.get("/v1/erasures"))["erasures"]
        assert (receipt["status"], receipt["erased"]["events"]) == ("done", 1)
        assert receipt["canceled_training_runs"] == ["run-1"]
        assert CollectionClient(client, "trees").get("training-runs/run-1")["status"] == "canceled"
        assert found_in(data, CLIENT, CANARY) == {}


def test_an_erasure_that_failed_after_it_deleted_is_finished_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    with opened(data) as client:
        trees = create(client, "trees")
        trees.add({"id": "oak", "text": "the oak is tall"})
        trees.act("oak", user_query=f"{CANARY} shelter", client_id=CLIENT)

        def busy(_: Database) -> None:
            raise DatabaseRead("a reader of the database kept the write-ahead log from being emptied")

        with monkeypatch.context() as patch:
            patch.setattr(type(runtime_of(client).database), "scrub", busy)
            task = trees.ended_task(good(client.post("/v1/erasures", json={"client": CLIENT})))
        assert (task["status"], task["error"]["code"]) == ("failed", "database_busy")
        assert good(client.get("/v1/erasures"))["erasures"][0]["status"] == "scrubbing"
    with opened(data) as client:
        (receipt,) = good(client.get("/v1/erasures"))["erasures"]
        assert (receipt["status"], receipt["erased"]["events"]) == ("done", 1)
    assert found_in(data, CLIENT, CANARY) == {}


def test_the_command_erases_in_a_data_directory(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOFTSEEK_ENCODER", "hashing")
    data = tmp_path / "data"
    with opened(data) as client:
        CollectionClient(client).search(f"{CANARY} shelter", client_id=CLIENT)
    told = run("erase", "--client", CLIENT, "--data", data)
    assert told.code == 0
    assert "1 impressions" in told.out
    assert "models that may have seen it" in told.out
    receipt = json.loads(run("erase", "--session", "s-1", "--collection", "default", "--json", "--data", data).out)
    assert (receipt["kind"], receipt["status"]) == ("session", "done")
    assert found_in(data, CLIENT, CANARY) == {}
    assert run("erase", "--data", data).code == 2
    assert run("erase", "--client", "a", "--user", "b", "--data", data).code == 2
