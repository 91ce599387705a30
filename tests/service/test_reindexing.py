"""A collection with documents gets another language or other kinds of keys; what it has learned stays."""

import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from fastapi.testclient import TestClient
from structlog.testing import capture_logs

from index.encoding.hashing_encoder import HashingEncoder
from service.app import create_app
from service.cli import main
from service.operations import reencoding_repository, rows_beside
from service.operations.health import diagnose
from service.operations.reindexing import OtherEncoder, Reindexed, reindex
from service.operations.retention import forget_old_feedback
from service.operations.rows_beside import TrainingUnfinished
from service.storage.database import rfc3339
from service.storage.unreadable_rows import UnreadableRow
from service.training import from_documents
from tests.service import test_reencoding as reencoding
from tests.service.client import CollectionClient, create, event, good, opened, problem, runtime_of
from tests.service.test_unreadable_rows import damage

pytestmark = pytest.mark.usefixtures("forked_training")

ALL = ["title", "passage", "sentence"]
QUERIES = ("Häuser am See", "das Haus", "house number 7", "kleine Boote", "The Lucky House")

Command = Callable[..., tuple[str, str]]
running = partial(reencoding.running, encoder=HashingEncoder())


def house(n: int) -> dict[str, Any]:
    text = f"Das Haus mit der Nummer {n} steht am Ufer vom See. Davor liegt ein kleines Boot mit roten Segeln."
    return {"id": f"house-{n}", "title": f"House {n}", "text": text, "metadata": {"n": n}}


def filled(client: TestClient, **settings: Any) -> CollectionClient:
    """Return a collection with documents, judgments, a click and a rule."""
    town = create(client, "town", filterable=["n"], **settings)
    town.add(*map(house, range(30)))
    for n in range(30):
        town.judge(f"house number {n}", f"house-{n}", 3)
    town.act("house-7", user_query="The Lucky House", client_id="c")
    rule = {"query": {"near": "Boot am Steg"}, "pin": [{"id": "house-9", "position": 1}]}
    good(client.put(f"{town.path}/rules/near", json=rule))
    return town


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with documents, feedback and a trained champion."""
    folder = tmp_path_factory.mktemp("trained") / "data"
    with opened(folder) as client:
        town = filled(client)
        assert town.train(promote="never", budget_seconds=1)["model_version"] == 1
        good(client.put(f"{town.path}/models/aliases/champion", json={"version": 1, "force": True}))
    return folder


@pytest.fixture
def data(trained: Path, tmp_path: Path) -> Path:
    """A copy of the data directory, for a single test."""
    return shutil.copytree(trained, tmp_path / "data")


@contextmanager
def served(data: Path) -> Iterator[CollectionClient]:
    with running(data) as runtime, TestClient(create_app(runtime.settings, runtime)) as client:
        yield CollectionClient(client, "town")


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts of documents that are encoded."""
    texts: list[str] = []
    encode = HashingEncoder.encode

    def noted(encoder: HashingEncoder, given: Sequence[str], *more: Any) -> Any:
        texts.extend(given)
        return encode(encoder, given, *more)

    monkeypatch.setattr(HashingEncoder, "encode", noted)
    return texts


def test_sentence_keys_are_added_and_only_they_are_encoded(data: Path, encoded: list[str]) -> None:
    steps: list[tuple[int, int]] = []
    with running(data) as runtime, capture_logs() as log:
        done = reindex(runtime, runtime.collection("town"), {"keys": ALL}, lambda *step: steps.append(step))
        assert done == Reindexed(documents=30, language="english", keys=ALL, champion=1, train_again=True)
        assert steps[-1] == (30, 30)
        assert sorted(encoded) == sorted(house(n)["text"] for n in range(30)), "titles and passages keep their vectors"
        assert reindex(runtime, runtime.collection("town"), {"keys": ALL[::-1]}) is None
    assert log == [], "nothing was damaged"
    with served(data) as town:
        counts = town.get()["counts"]
        assert (counts["keys"]["title"], counts["keys"]["passage"], counts["keys"]["sentence"]) == (30, 30, 30)
        assert (town.get()["settings"]["keys"], town.get()["champion"]) == (ALL, 1)
        hit = town.search("Boot", explain=True, log=False)["hits"][0]
        assert {key["kind"] for key in hit["explain"]["keys"]} >= {"title", "passage", "sentence"}


@pytest.mark.parametrize(
    "changes",
    [
        {"language": "german"},
        {"keys": ALL},
        {"keys": ["passage"]},
        {"language": "german", "keys": ["passage", "title"]},
    ],
    ids=str,
)
def test_the_ranking_is_that_of_a_collection_made_like_that(
    data: Path, tmp_path: Path, changes: dict[str, Any]
) -> None:
    with running(data) as runtime:
        assert reindex(runtime, runtime.collection("town"), changes) is not None
        assert all(check["ok"] for check in diagnose(runtime) if check["name"] in ("database", "foreign keys"))
        assert [check for check in diagnose(runtime) if not check["ok"] and "town" in check["name"]] == []
    with opened(tmp_path / "fresh") as fresh, served(data) as town:
        other = filled(fresh, **changes)
        for query in QUERIES:
            assert town.ranking(query, model=0) == other.ranking(query), query
        assert town.ids("Boot am Steg")[0] == "house-9"
        town.add(house(31))
        assert town.ids("house 31")[0] == "house-31"


def test_forms_of_words_are_found_in_the_new_language(data: Path) -> None:
    with served(data) as town:
        assert town.search("Häuser", mode="words")["hits"] == []
        fixed = problem(town.client.put(town.path, json={"language": "german"}), 409, "setting_is_fixed")
        assert "softseek reindex town" in fixed["detail"]
        good(town.client.put(town.path, json={"keys": ["passage", "title"]}))  # the same kinds in another order
    with running(data) as runtime:
        reindex(runtime, runtime.collection("town"), {"language": "german"})
    with served(data) as town:
        assert len(town.search("Häuser", mode="words", limit=100)["hits"]) == 30


def test_what_was_learned_stays(data: Path) -> None:
    now = datetime.now(UTC)
    with served(data) as town:
        good(town.client.put(town.path, json={"retention_days": 1}))
        old = {"timestamp": rfc3339(now - timedelta(days=10))}
        town.post("events", event("house-3", user_query="an old wish") | old)
        forget_old_feedback(runtime_of(town.client), now)
        query_id = town.search("The Lucky House")["query_id"]
        before = town.get()["counts"]
    with running(data) as runtime:
        reindex(runtime, runtime.collection("town"), {"keys": ["passage"], "language": "none"})
    with served(data) as town:
        after = town.get()["counts"]
        assert [after[name] for name in ("events", "judgments", "models")] == [1, 30, 2]
        assert after["keys"]["query"] == before["keys"]["query"] == 32, "anonymous memory among them"
        assert town.search("house number 3")["model"]["version"] == 1
        town.act("house-8", query_id=query_id, client_id="c")
        assert town.post("events/delete", {"client_id": "c"}) == {"deleted": 2}
        assert town.get("models")["aliases"]["champion"] == 1
        run = town.train(promote="never", budget_seconds=1)
        assert run["model_version"] == 2


def test_an_interruption_before_the_switch_changes_nothing(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(data) as town:
        before = [town.ranking(query) for query in QUERIES]

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with running(data) as runtime, monkeypatch.context() as patched:
        patched.setattr(reencoding_repository, "switch_documents", interrupted)
        with pytest.raises(KeyboardInterrupt):
            reindex(runtime, runtime.collection("town"), {"keys": ALL})
    with served(data) as town:
        assert [town.ranking(query) for query in QUERIES] == before
        assert town.get()["settings"]["keys"] == ["title", "passage"]
        with runtime_of(town.client).database.read() as connection:
            assert connection.exec_driver_sql("SELECT count(*) FROM collections").scalar() == 2


def test_an_unfinished_run_and_another_encoder_are_refused(data: Path) -> None:
    with running(data, encoder=HashingEncoder(dim=96)) as runtime, pytest.raises(OtherEncoder, match="another encoder"):
        reindex(runtime, runtime.collection("town"), {"keys": ALL})
    with running(data) as runtime:
        with runtime.database.write() as connection:
            connection.exec_driver_sql("UPDATE training_runs SET status = 'processing'")
        with pytest.raises(TrainingUnfinished):
            reindex(runtime, runtime.collection("town"), {"language": "german"})
        with runtime.database.write() as connection:
            connection.exec_driver_sql("UPDATE training_runs SET status = 'succeeded'")


DAMAGE = {
    "value": """UPDATE "values" SET vector = zeroblob(4) WHERE document_row = 8""",
    "vector": "UPDATE keys SET vector = zeroblob(5) WHERE document_row = 8 AND kind = 1",
    "kind": "UPDATE keys SET kind = 9 WHERE document_row = 8 AND kind = 1",
}


@pytest.mark.sqlite
@pytest.mark.parametrize("statement", DAMAGE.values(), ids=DAMAGE)
def test_a_document_with_an_unreadable_vector_is_found_by_words_until_repair(data: Path, statement: str) -> None:
    with running(data) as runtime, runtime.database.write() as connection:
        id = connection.exec_driver_sql("SELECT id FROM documents WHERE row = 8").scalar_one()
        assert connection.exec_driver_sql(statement).rowcount == 1
    with running(data) as runtime:
        assert reindex(runtime, runtime.collection("town"), {"language": "german"}) is not None
    with served(data) as town:
        name = town.get(f"documents/{id}")["title"]
        assert town.ids(name, mode="words")[0] == id
        assert id not in town.ids(name, mode="dense", limit=100)
    with running(data) as runtime:
        assert "vectors that differ" in str([check["detail"] for check in diagnose(runtime) if not check["ok"]])
        diagnose(runtime, repair=True)
    with served(data) as town:
        assert town.ids(name, mode="dense")[0] == id


@pytest.mark.sqlite
@pytest.mark.parametrize("changes", [{"language": "german"}, {"keys": ALL}], ids=str)
@pytest.mark.parametrize("column", ["metadata = '{'", "title = x'ff'", "text = x'ff'"])
def test_an_unreadable_document_refuses_the_change_and_nothing_is_changed(
    data: Path, column: str, changes: dict[str, Any]
) -> None:
    with running(data) as runtime, runtime.database.write() as connection:
        connection.exec_driver_sql(f"UPDATE documents SET {column} WHERE row = 8")
    with running(data) as runtime:
        with pytest.raises(UnreadableRow, match="documents"):
            reindex(runtime, runtime.collection("town"), changes)
        assert runtime.collection("town").settings.keys == ["title", "passage"]
    with served(data) as town:
        assert town.get()["settings"]["language"] == "english"
        assert town.ids("house number 3", limit=1) == ["house-3"]


@pytest.mark.sqlite
@pytest.mark.parametrize("changes", [{"language": "german"}, {"keys": ALL}], ids=str)
def test_missing_changes_stay_missing(data: Path, changes: dict[str, Any]) -> None:
    with running(data) as runtime:
        state = runtime.collection("town")
        state.mark(state.generation.watermark + 2)
    with running(data) as runtime:
        assert runtime.collection("town").missing_changes == 2
        reindex(runtime, runtime.collection("town"), changes)
        assert runtime.collection("town").missing_changes == 2
    with running(data) as runtime:
        assert runtime.collection("town").missing_changes == 2


@pytest.mark.sqlite
def test_a_past_query_without_its_document_stays_damaged_and_hinders_nothing(data: Path) -> None:
    missing = "SELECT count(*) FROM keys WHERE kind = 3 AND document_row NOT IN (SELECT row FROM documents)"
    damage(data, "UPDATE keys SET document_row = 9999 WHERE id = (SELECT min(id) FROM keys WHERE kind = 3)")
    with running(data) as runtime:
        reindex(runtime, runtime.collection("town"), {"keys": ALL})
        with runtime.database.read() as connection:
            assert connection.exec_driver_sql(missing).scalar_one() == 1


def test_a_cluster_encodes_nothing(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_beside, "_encode_on_cluster", Mock(side_effect=AssertionError))
    with running(data, ray_encoders=1) as runtime:
        assert reindex(runtime, runtime.collection("town"), {"keys": ALL}) is not None


def test_a_model_of_the_documents_is_made_again_for_the_new_index(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(from_documents, "MIN_DOCUMENTS", 30)

    def reason(town: CollectionClient) -> str | None:
        runtime = runtime_of(town.client)
        with runtime.database.read() as connection:
            return from_documents.why_due(runtime, runtime.collection("town"), connection)

    with served(data) as town:
        good(town.client.put(town.path, json={"train_from_documents": True}))
        model = town.train(learn_from="documents")["model_version"]
        good(town.client.put(f"{town.path}/models/aliases/champion", json={"version": model, "force": True}))
        assert reason(town) is None
    with running(data) as runtime:
        reindex(runtime, runtime.collection("town"), {"language": "german"})
    with served(data) as town:
        assert reason(town) is not None
        assert town.get(f"models/{model}")["lineage"]["learned_index"] == {
            "language": "english",
            "keys": ["passage", "title"],
        }
        town.train(learn_from="documents")
        assert reason(town) is None
    with running(data) as runtime:
        reindex(runtime, runtime.collection("town"), {"language": "english"})
    with served(data) as town:
        assert "learned_index" not in town.get(f"models/{model}")["lineage"]
        assert reason(town) is None


@pytest.fixture
def command(data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run `softseek reindex`; return stdout and stderr."""
    for name in [name for name in os.environ if name.upper().startswith("SOFTSEEK_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(data.parent)
    monkeypatch.setenv("SOFTSEEK_ENCODER", "hashing")

    def run(*arguments: Any, code: int = 0) -> tuple[str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(["reindex", *map(str, arguments), "--data", str(data)])
        shown = capsys.readouterr()
        assert (ended.value.code or 0) == code, shown.err
        return shown.out, shown.err

    return run


def test_the_command_says_what_it_did(command: Command) -> None:
    assert "no such collection" in command("nowhere", "--language", "german", code=1)[1]
    assert "expected --language or --keys" in command("town", code=2)[1]
    assert "must contain passage" in command("town", "--keys", "title", code=2)[1]
    assert "expected some of" in command("town", "--keys", "passage,words", code=2)[1]
    assert "town is indexed like that already" in command("town", "--keys", "passage,title")[0]
    out, _ = command("town", "--language", "german", "--keys", "title,passage,sentence")
    assert "town: 30 documents, language german, keys title,passage,sentence" in out
    assert "model 1 learned from another index and still serves: train again" in out
    done = json.loads(command("town", "--language", "english", "--json")[0])
    assert done == {
        "collection": "town",
        "changed": True,
        "done": {"documents": 30, "language": "english", "keys": ALL, "champion": 1, "train_again": True},
    }
    assert json.loads(command("town", "--language", "english", "--json")[0])["done"] is None
    out, _ = command("town", "--keys", "title,passage,title")
    assert out == "town: 30 documents, language english, keys title,passage\n", "as model 1 learned"
