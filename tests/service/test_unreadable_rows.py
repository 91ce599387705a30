"""A stored row that cannot be read is named, and the rest of the service goes on without it."""

import json
import shutil
import sqlite3
import traceback
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from service.operations.health import diagnose
from service.snapshots.stored import snapshots_directory
from service.storage.tables import EVENTS
from service.storage.unreadable_rows import UnreadableRow, stored_json
from service.storage.vector_codec import as_vector
from tests.service.client import CollectionClient, good, opened, problem, runtime_of
from tests.service.test_checksums import add_other_rows, filled
from tests.service.test_snapshot_files import command

pytestmark = pytest.mark.sqlite
DOCTOR = "`softseek doctor` names it"


def damage(data: Path, statement: str) -> None:
    """Change the database as a disk does that flips a byte."""
    with closing(sqlite3.connect(data / "softseek.db", isolation_level=None)) as database:
        assert database.execute(statement).rowcount > 0


@pytest.fixture(scope="module")
def filled_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("filled") / "data"
    with opened(data) as client:
        add_other_rows(filled(client))
    return data


@pytest.fixture
def data(filled_directory: Path, tmp_path: Path) -> Path:
    """Return a copy of a data directory with all kinds of rows of a collection."""
    return Path(shutil.copytree(filled_directory, tmp_path / "data"))


@pytest.fixture
def wood(data: Path) -> Iterator[CollectionClient]:
    with opened(data) as client:
        yield CollectionClient(client, "wood")


@pytest.mark.parametrize("text", ['{"a" 1}', "", b"\xff", 1.5])
def test_a_text_that_is_no_json_cannot_be_read(text: Any) -> None:
    with pytest.raises(UnreadableRow):
        stored_json(text)


@pytest.mark.parametrize("blob", [b"\0" * 5, "text", None])
def test_bytes_that_are_no_vector_cannot_be_read(blob: Any) -> None:
    with pytest.raises(UnreadableRow):
        as_vector(blob)


@pytest.mark.parametrize(
    "change",
    [
        "body = replace(body, '\"pin\"', '\"pin ')",
        "body = replace(body, '\"pin\"', '\"pjn\"')",
        "body = replace(body, '\"near\"', '\"neas\"')",
        "vector = x'0000'",
        "vector = x'00000000'",
        "vector = NULL",
        "body = CAST(x'7bff7d' AS TEXT)",
    ],
)
def test_a_rule_that_cannot_be_read_is_left_out_and_can_be_deleted(data: Path, change: str) -> None:
    with opened(data) as client:
        rule = {"query": {"exact": "tree"}, "pin": [{"id": "elm", "position": 1}]}
        good(client.put("/v1/collections/wood/rules/sound", json=rule))
    damage(data, f"UPDATE rules SET {change} WHERE id = 'near'")
    with opened(data) as client:
        wood = CollectionClient(client, "wood")
        found = wood.search("tree", log=False)
        assert (found["hits"][0]["id"], found["degraded"]) == ("elm", ["rules_unreadable"])
        assert good(client.get("/readyz"))["degraded"] == {"wood": ["rules_unreadable"]}
        assert "sound" in [rule["id"] for rule in wood.get("rules")["rules"]]
        assert client.delete(f"{wood.path}/rules/near").status_code == 204
        assert wood.search("tree", log=False)["degraded"] == []
        assert [rule["id"] for rule in wood.get("rules")["rules"]] == ["sound"]


def test_the_traceback_of_a_text_that_is_no_utf_8_does_not_have_the_text(data: Path, wood: CollectionClient) -> None:
    damage(data, "UPDATE events SET query_text = CAST(CAST('SECRET' AS BLOB) || x'ff' AS TEXT)")
    with pytest.raises(UnreadableRow) as raised, runtime_of(wood.client).database.read() as connection:
        connection.execute(select(EVENTS.c.query_text)).all()
    shown = "".join(traceback.format_exception(raised.value))
    assert "Could not decode to UTF-8" in shown
    assert "SECRET" not in shown


def test_a_rule_that_cannot_be_read_can_be_put_again(data: Path) -> None:
    damage(data, "UPDATE rules SET body = '{'")
    with opened(data) as client:
        wood = CollectionClient(client, "wood")
        assert DOCTOR in problem(client.get(f"{wood.path}/rules/near"), 409, "row_damaged")["detail"]
        rule = {"query": {"exact": "tree"}, "pin": [{"id": "elm", "position": 1}]}
        good(client.put(f"{wood.path}/rules/near", json=rule))
        assert wood.search("tree", log=False)["degraded"] == []
        assert wood.ids("tree")[0] == "elm"


@pytest.mark.parametrize(
    ("statement", "table"),
    [
        ("UPDATE collections SET settings = substr(settings, 1, 40) WHERE name = 'wood'", "collections"),
        ("UPDATE collections SET encoder = CAST(x'69ff' AS TEXT) WHERE name = 'wood'", "collections"),
        ("UPDATE documents SET title = CAST(x'61ff' AS TEXT)", "documents"),
        ("UPDATE models SET lineage = '{'", "models"),
        ("UPDATE rules SET id = CAST(x'61ff' AS TEXT)", "rules"),
        ("UPDATE events SET client_id = CAST(x'61ff' AS TEXT)", "keys, events or judgments"),
        ("UPDATE events SET created_at = '2026-1x', timestamp = '20x'", "keys, events or judgments"),
    ],
)
def test_a_start_that_cannot_read_a_row_says_so_and_doctor_names_the_row(
    data: Path,
    statement: str,
    table: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SOFTSEEK_ENCODER", "hashing")
    damage(data, statement)
    shutil.rmtree(data / "indexes")
    assert command("collections", "list", "--data", str(data)) == 1
    assert f"a stored row of the table {table} is damaged and cannot be read; {DOCTOR}" in capsys.readouterr().err
    assert command("doctor", "--data", str(data), "--json") == 1
    failed = [one["detail"] for one in json.loads(capsys.readouterr().out)["checks"] if not one["ok"]]
    assert any(" in all" in detail for detail in failed), failed


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE keys SET vector = x'0000000000' WHERE document_row = 1 AND source IS NULL",
        "UPDATE keys SET vector = x'00000000' WHERE document_row = 1 AND source IS NULL",
        "UPDATE keys SET kind = 9 WHERE document_row = 1 AND source IS NULL",
        "UPDATE \"values\" SET vector = x'00' WHERE document_row = 1",
        "UPDATE \"values\" SET vector = x'00000000' WHERE document_row = 1",
    ],
)
def test_an_index_is_rebuilt_without_vectors_that_cannot_be_read_until_they_are_repaired(
    data: Path, statement: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(data) as client:
        before = CollectionClient(client, "wood").ranking("an old tree")
    monkeypatch.setenv("SOFTSEEK_ENCODER", "hashing")
    damage(data, statement)
    shutil.rmtree(data / "indexes")
    with opened(data) as client:
        wood = CollectionClient(client, "wood")
        assert wood.ids("an old tree", mode="words") == ["oak"]
        assert wood.ranking("an old tree") != before
        assert wood.get()["counts"]["documents"] == len(before)
    assert command("doctor", "--data", str(data), "--repair") == 1
    assert "have vectors that differ" in capsys.readouterr().out
    assert command("doctor", "--data", str(data)) == 0
    with opened(data) as client:
        assert CollectionClient(client, "wood").ranking("an old tree") == before


@pytest.mark.parametrize("vector", ["x'0000000000'", "x'00000000'"])
def test_a_past_query_with_a_vector_of_another_length_is_left_out_until_it_is_repaired(data: Path, vector: str) -> None:
    with opened(data) as client:
        before = CollectionClient(client, "wood").ranking("an old tree")
    damage(data, f"UPDATE keys SET vector = {vector} WHERE event_id = 1")
    with opened(data) as client:
        wood = CollectionClient(client, "wood")
        assert wood.ranking("an old tree") != before
        assert "memory of wood" in [one["name"] for one in diagnose(runtime_of(client), True) if not one["ok"]]
        assert [one["name"] for one in diagnose(runtime_of(client)) if not one["ok"]] == []
        assert wood.ranking("an old tree") == before


def test_a_damaged_document_is_named_where_it_is_needed_and_left_out_of_lists(
    data: Path, wood: CollectionClient
) -> None:
    client = wood.client
    damage(data, "UPDATE documents SET metadata = '{\"n' WHERE id = 'oak'")
    named = f"a stored row is damaged and cannot be read; {DOCTOR}"
    assert problem(client.get(f"{wood.path}/documents/oak"), 409, "row_damaged")["detail"] == named
    named = f"a stored row of the table documents is damaged and cannot be read; {DOCTOR}"
    assert problem(client.get("/v1/export"), 409, "row_damaged")["detail"] == named
    task = wood.ended_task(good(client.post("/v1/snapshots")))
    assert (task["status"], task["error"]["code"], task["error"]["detail"]) == ("failed", "row_damaged", named)
    assert list(snapshots_directory(data).iterdir()) == []
    assert [one["id"] for one in wood.get("documents", limit=1000)["documents"]] == ["elm"]
    pages = [wood.get("documents", limit=1)]
    while pages[-1]["cursor"]:
        pages.append(wood.get("documents", limit=1, cursor=pages[-1]["cursor"]))
    assert [one["id"] for page in pages for one in page["documents"]] == ["elm"]
    assert [id for page in pages for id in page["unreadable"]] == ["oak"]
    assert client.delete(f"{wood.path}/documents/oak").status_code == 204
    assert wood.ended_task(good(client.post("/v1/snapshots")))["status"] == "succeeded"


def test_a_mirrored_source_without_a_damaged_document_deletes_it(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOFTSEEK_ENCODER", "hashing")
    damage(data, "UPDATE documents SET metadata = '{\"n' WHERE id = 'oak'")
    source = tmp_path / "source.ndjson"
    source.write_text(json.dumps({"id": "elm", "text": "an elm"}))
    assert command("ingest", str(source), "--collection", "wood", "--delete-missing", "--data", str(data)) == 0
    with opened(data) as client:
        assert client.get("/v1/collections/wood/documents/oak").status_code == 404


def test_lists_of_runs_and_receipts_leave_out_what_cannot_be_read(data: Path, wood: CollectionClient) -> None:
    client = wood.client
    for name in ("ada", "bo"):
        wood.ended_task(good(client.post("/v1/erasures", json={"client": name})))
    damage(data, "UPDATE erasures SET receipt = '{\"a' WHERE id = (SELECT max(id) FROM erasures)")
    assert len(good(client.get("/v1/erasures"))["erasures"]) == 1
    damage(data, "UPDATE training_runs SET steps = '[{'")
    assert wood.get("training-runs")["training_runs"] == []
    problem(client.get(f"{wood.path}/training-runs/run"), 409, "row_damaged")


@pytest.mark.parametrize(
    "body",
    [
        "replace(body, '}', '')",
        "'[' || body || ']'",
        "CAST(CAST(substr(body, 1, length(body) - 1) AS BLOB) || x'ff' AS TEXT)",
    ],
)
@pytest.mark.parametrize("subject", [{"user": "anna"}, {"client": "ada"}])
def test_an_erasure_deletes_an_event_whose_body_cannot_be_read(
    data: Path, wood: CollectionClient, subject: dict[str, str], body: str
) -> None:
    searched = wood.search("an old tree", client_id="ada")["query_id"]
    wood.act("oak", query_id=searched, user_query="an old tree", client_id="cid", user_id="anna")
    damage(data, f"UPDATE events SET body = {body} WHERE client_id = 'cid'")
    task = wood.ended_task(good(wood.client.post("/v1/erasures", json=subject)))
    assert (task["status"], task["error"]) == ("succeeded", None)
    with closing(sqlite3.connect(data / "softseek.db")) as database:
        assert database.execute("SELECT count(*) FROM events WHERE client_id = 'cid'").fetchone() == (0,)


def test_an_erasure_deletes_an_event_whose_text_of_the_query_is_no_utf_8(data: Path, wood: CollectionClient) -> None:
    searched = wood.search("an old tree", client_id="ada")["query_id"]
    for client in ("cid", "dee"):
        wood.act("oak", query_id=searched, user_query="an old tree", client_id=client)
    damage(data, "UPDATE events SET query_text = CAST(x'616eff' AS TEXT) WHERE client_id = 'cid'")
    task = wood.ended_task(good(wood.client.post("/v1/erasures", json={"client": "ada"})))
    assert (task["status"], task["error"]) == ("succeeded", None)
    with closing(sqlite3.connect(data / "softseek.db")) as database:
        found = database.execute("SELECT client_id FROM events WHERE query_id = ?", (searched,)).fetchall()
    assert found == [("dee",)]
