"""Other servers beside ours: every system gets the same data and measurements, and a failure stops no other system."""

import importlib
import json
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from benchmarks import speed_tables
from benchmarks.collections import ingest
from benchmarks.servers import app
from benchmarks.servers.corpus import Corpus, endless, gather, recall, taken
from benchmarks.servers.environments import REQUIREMENTS, python_of
from benchmarks.servers.launch import _measured, candidates_recall, chosen
from benchmarks.servers.measure import NotRunning, Plan, measure
from benchmarks.servers.processes import disk_bytes, marked, memory, running
from benchmarks.servers.report import goals, show
from benchmarks.servers.systems import INT8, OURS, ROOT, SYSTEMS, Place, StoreApp, Txtai
from index.encoding.encoder import HashingEncoder
from service.runtime.runtime import Runtime
from service.settings import Settings
from tests.benchmarks.sets import animals

SMALL_SERVER = Path(__file__).with_name("small_server.py")
PLAN = Plan(timed=10, clients=(1, 2), requests=(15, 10), seconds=60, warm_up=1)


class Small(StoreApp):
    """The small server instead of the app of a store; `code` replaces the small server."""

    def __init__(self, code: list[str] | None = None) -> None:
        super().__init__("small", workers=1)
        self.requirements = None
        self._code = code or [str(SMALL_SERVER)]

    def start(self, place: Place) -> tuple[list[str], dict[str, str]]:
        return [sys.executable, *self._code, str(place.folder), str(place.port)], {}

    def ends(self) -> list[bytes]:
        return []


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return gather([animals()], 20)


def same_words(corpus: Corpus) -> np.ndarray:
    """Return the numbers of shared words (Q, N), the expected scores of the small server."""
    asked, known = ([set(text.split()) for text in texts] for texts in (corpus.queries, corpus.texts))
    return np.array([[len(words & text) for text in known] for words in asked], np.float32)


def test_a_system_loads_all_documents_and_is_searched_after_a_restart_by_more_and_more_clients(corpus: Corpus) -> None:
    vectors = np.zeros((20, 2), np.float32)
    figures = measure(Small(), corpus, vectors, same_words(corpus), Path(), PLAN, lambda folder: lines_of(folder))
    assert figures["lines"] == 20
    assert {clients: load["answers"] for clients, load in figures["clients"].items()} == {1: 15, 2: 10}
    assert all(load["failures"] == {} for load in figures["clients"].values())
    assert min(figures[name] for name in ("documents_per_second", "cold_start_seconds", "disk_bytes", "pss_bytes")) > 0


def test_recall_is_computed_from_the_answers_of_the_system(corpus: Corpus) -> None:
    vectors, right = np.zeros((20, 2), np.float32), same_words(corpus)
    good = measure(Small(), corpus, vectors, right, Path(), PLAN)["recall_at_10"]
    bad = measure(Small(), corpus, vectors, -right, Path(), PLAN)["recall_at_10"]
    assert good == 1.0
    assert bad < 1.0


def lines_of(folder: Path) -> dict[str, Any]:
    return {"lines": len((folder / "documents.jsonl").read_text(encoding="utf-8").splitlines())}


def test_a_system_that_ends_is_reported_with_its_output(corpus: Corpus) -> None:
    broken = Small(["-c", "raise SystemExit('no such library')"])
    with pytest.raises(NotRunning, match="no such library"):
        measure(broken, corpus, np.zeros((20, 2), np.float32), same_words(corpus), Path(), PLAN)


def test_a_failed_system_is_reported_and_the_benchmark_continues(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SYSTEMS, "broken", Small(["-c", "raise SystemExit('no such library')"]))
    found = _measured(
        "broken", corpus, np.zeros((20, 2), np.float32), same_words(corpus), Path(), PLAN, HashingEncoder()
    )
    assert found.keys() == {"failed"}
    assert "no such library" in found["failed"]


def test_candidates_of_ours_are_compared_with_every_key(tmp_path: Path) -> None:
    encoder, one = HashingEncoder(), animals()
    runtime = Runtime.open(Settings(data=tmp_path), encoder)
    ingest(runtime, runtime.collection("default"), one.documents)
    runtime.close()
    corpus = gather([one], len(one.documents))
    assert candidates_recall(tmp_path, corpus, encoder, count=5) == 1.0


def test_query_texts_continue_without_repetition_and_keep_their_length() -> None:
    queries = ["how to sort a list", "wall clocks for kitchens", "red apples"]
    texts = list(endless(queries))
    assert texts[:3] == queries
    assert len(texts) == len(set(texts)) > 3
    assert "how to sort for kitchens" in texts
    with pytest.raises(ValueError, match="are left"):
        taken(endless(queries), 100)


def test_the_sets_of_the_benchmark_have_enough_texts() -> None:
    queries = [f"where is thing {number} in house {number}" for number in range(1000)]
    wanted = sum(Plan().requests) + 1000
    assert len(set(islice(endless(queries), wanted))) == wanted


def test_documents_are_always_shuffled_in_the_same_order() -> None:
    first, again = gather([animals()], 30), gather([animals()], 30)
    assert first == again
    assert first.documents[0]["id"].startswith("animals-")
    assert [one["id"] for one in first.documents] != [f"animals-{one['id']}" for one in animals().documents]
    assert first.texts[0] == f"{first.documents[0]['title']}\n{first.documents[0]['text']}"


def test_recall_counts_documents_that_tie_with_the_last_rank() -> None:
    scores = np.array([[0.9, 0.5, 0.5, 0.1]], np.float32)
    assert recall(scores, [[0, 1]], 2) == recall(scores, [[2, 0]], 2) == 1.0
    assert recall(scores, [[0, 3]], 2) == 0.5
    assert recall(scores, [[0]], 2) == 0.5


def test_detached_processes_are_found_counted_and_ended(tmp_path: Path) -> None:
    sleep = "import time; time.sleep(600)"
    leave = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {sleep!r}], start_new_session=True)"
    with running([sys.executable, "-c", leave], {}, tmp_path, tmp_path / "log") as one:
        one.process.wait(60)
        (left,) = marked(one.mark)
        assert left != one.process.pid
        used = memory(one.mark)  # one look: the process may still be starting
        assert used["rss_bytes"] >= used["pss_bytes"] > 0
        subprocess.run(["kill", str(left)], check=True)
    assert marked(one.mark) == set()


def test_the_last_lines_of_a_system_are_kept(tmp_path: Path) -> None:
    with running([sys.executable, "-c", "print('a'); print('bye')"], {}, tmp_path, tmp_path / "log") as one:
        one.process.wait(60)
        assert one.last_words() == "a | bye"


def test_programs_and_logs_do_not_count_as_data(tmp_path: Path) -> None:
    for name in ("data", "logs"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_bytes(b"x" * 5000)
    assert 2 * disk_bytes(tmp_path, without=("logs",)) == disk_bytes(tmp_path) > 0


@pytest.mark.parametrize("name", [name for name, system in SYSTEMS.items() if system.requirements])
def test_requirements_of_a_peer_are_pinned(name: str) -> None:
    lines = (REQUIREMENTS / f"{SYSTEMS[name].requirements}.txt").read_text(encoding="utf-8").split()
    assert lines
    assert all("==" in line for line in lines)


def test_an_environment_is_reused_while_its_requirements_are_unchanged(tmp_path: Path) -> None:
    python = tmp_path / "lancedb" / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    (tmp_path / "lancedb" / "installed.txt").write_text((REQUIREMENTS / "lancedb.txt").read_text(encoding="utf-8"))
    assert python_of("lancedb", tmp_path) == python


def test_systems_are_chosen_by_name() -> None:
    assert chosen("") == list(SYSTEMS)
    assert chosen("milvus, ours") == ["milvus", "ours"]
    with pytest.raises(SystemExit, match="vespa"):
        chosen("vespa")


def test_every_system_is_asked_for_ten_hits_and_its_ids_are_parsed() -> None:
    hit = b'{"id": "a", "text": "red apple", "score": 1}'
    for name, system in SYSTEMS.items():
        asked = system.search("red apple & pear")
        assert b"10" in asked, name
        assert b"red apple & pear" in asked or b"red%20apple%20%26%20pear" in asked, name
        assert system.hits(b"[%s]" % hit if isinstance(system, Txtai) else b'{"hits": [%s]}' % hit) == ["a"], name


def test_a_peer_with_our_encoder_differs_from_the_peer_in_its_encoder_alone(tmp_path: Path) -> None:
    place = Place(tmp_path, 1234, tmp_path / "model", Path("python"))
    configurations = []
    for name in ("txtai", "txtai-same-encoder"):
        _, environment = SYSTEMS[name].start(place)
        embeddings = json.loads(Path(environment["CONFIG"]).read_text(encoding="utf-8"))["embeddings"]
        configurations.append((embeddings, environment["PYTHONPATH"]))
    (plain, no_path), (same, path) = configurations
    assert same == plain | {"method": "benchmarks.servers.stores.txtai_vectors.TxtaiVectors"}
    assert (no_path, path) == ("", str(ROOT))
    assert app.STORES["pgvector-same-encoder"] == ("postgres", "SameEncoderPostgresStore")
    for name in ("txtai", "pgvector"):
        plain_list, same_list = (
            (REQUIREMENTS / f"{name}{ending}.txt").read_text(encoding="utf-8").split()
            for ending in ("", "-same-encoder")
        )
        assert set(plain_list) - set(same_list) <= {line for line in plain_list if "transformers==" in line}


@pytest.mark.sqlite
def test_our_encoder_is_imported_without_the_rest_of_the_service() -> None:
    code = "import json, sys; import benchmarks.servers.stores.same_encoder; print(json.dumps(sorted(sys.modules)))"
    shown = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    packages = {name.partition(".")[0] for name in json.loads(shown)}
    assert {"numpy", "tokenizers", "semantic_text_splitter", "structlog"} <= packages
    assert not packages & {"torch", "transformers", "sentence_transformers", "faiss", "tantivy", "lark", "sqlalchemy"}


def test_txtai_encodes_queries_as_queries_and_documents_as_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    class Vectors:
        """The used part of txtai's base class."""

        def __init__(self) -> None:
            self.model = self.loadmodel("model")  # type: ignore[attr-defined]

    class Negated(HashingEncoder):
        def encode_queries(self, texts: Sequence[str]) -> Any:
            return -self.encode(texts)

    module = ModuleType("txtai.vectors")
    module.Vectors = Vectors  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "txtai", ModuleType("txtai"))
    monkeypatch.setitem(sys.modules, "txtai.vectors", module)
    monkeypatch.delitem(sys.modules, "benchmarks.servers.stores.txtai_vectors", raising=False)
    monkeypatch.setattr("benchmarks.servers.stores.same_encoder.converted_encoder", lambda path: Negated())
    vectors = importlib.import_module("benchmarks.servers.stores.txtai_vectors").TxtaiVectors()
    monkeypatch.delitem(sys.modules, "benchmarks.servers.stores.txtai_vectors")
    texts = ["red apple", "green pear"]
    assert np.array_equal(vectors.encode(texts, "data"), HashingEncoder().encode(texts))
    assert np.array_equal(vectors.encode(texts, "query"), -HashingEncoder().encode(texts))


def test_documents_have_vectors_only_for_systems_that_take_them() -> None:
    documents = [{"id": "a", "title": "Apple", "text": "red"}]
    (with_vectors,) = SYSTEMS["milvus"].posts(documents, [np.array([0.5, 0.25])])
    assert with_vectors.endswith(b'{"documents": [{"id": "a", "text": "Apple\\nred"}], "vectors": [[0.5, 0.25]]}')
    (text,) = SYSTEMS["milvus"].posts(documents, None)
    assert b"vectors" not in text
    assert not SYSTEMS["txtai"].takes_vectors
    assert not SYSTEMS[OURS].takes_vectors


class Words:
    """A store for the app: it finds texts that contain the word."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.settled = False

    def add(self, ids: list[str], texts: list[str], vectors: Sequence[Any] | None) -> None:
        self.texts |= dict(zip(ids, texts, strict=True))

    def settle(self) -> None:
        self.settled = True

    def search(self, text: str, limit: int) -> list[dict[str, Any]]:
        return [{"id": one, "text": known, "score": 1.0} for one, known in self.texts.items() if text in known][:limit]


def test_the_app_loads_documents_and_finds_them(monkeypatch: pytest.MonkeyPatch) -> None:
    store, closed = Words(), []
    monkeypatch.setitem(app._opened, "store", store)
    workers = [ThreadPoolExecutor(1), ThreadPoolExecutor(1)]
    with TestClient(app.create_app(workers, lambda: closed.append(True))) as client:
        documents = [{"id": "a", "text": "red apple"}, {"id": "b", "text": "green pear"}]
        assert client.post("/documents", json={"documents": documents}).json() == {"added": 2}
        assert client.post("/settle").status_code == 200
        found = client.post("/search", json={"q": "pear", "limit": 10}).json()
    assert found == {"hits": [{"id": "b", "text": "green pear", "score": 1.0}]}
    assert store.settled
    assert closed == [True]


def system(rate: float, p50: float, qps: float) -> dict[str, Any]:
    load = {"p50_ms": p50, "p99_ms": 3 * p50, "qps": qps, "failures": {}}
    return {"documents_per_second": rate, "clients": dict.fromkeys((1, 8, 32), load)}


def figures() -> dict[str, Any]:
    systems = {
        OURS: system(90, 5, 400),
        INT8: {"documents_per_second": 120.0},
        "txtai": system(30, 20, 50),
        "lancedb": system(40, 10, 100),
        "pgvector": system(20, 12.5, 200),
        "milvus": {"failed": "NotInstalled: no such version"},
    }
    return {"documents": 10, "systems": systems, "alone": {"our encoder, documents/s": 120.0}}


def test_ours_is_compared_with_the_best_peer_of_each_measure() -> None:
    found = {goal.name: (round(goal.value, 3), goal.met, goal.best) for goal in goals(figures())}
    assert found == {
        "p50 at 1 client": (0.5, False, "lancedb"),
        "searches/s at 8 clients": (2.0, False, "pgvector"),
        "searches/s at 32 clients": (2.0, False, "pgvector"),
        "documents/s": (2.25, False, "lancedb"),
        "documents/s, int8": (3.0, True, "lancedb"),
        "p99 at 8 clients, ms": (15, True, ""),
        "documents/s over our encoder's alone": (0.75, False, ""),
    }


def test_without_ours_or_without_peers_there_are_no_ratios() -> None:
    some = figures()
    del some["alone"]
    assert goals(some | {"systems": {"txtai": system(30, 20, 50)}}) == []
    assert [goal.name for goal in goals(some | {"systems": {OURS: system(90, 5, 400)}})] == ["p99 at 8 clients, ms"]


def test_a_system_that_failed_is_reported_with_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    show(figures())
    printed = capsys.readouterr().out
    stored = json.loads(json.dumps(figures() | {"goals": [asdict(goal) for goal in goals(figures())]}))
    assert "| searches/s at 8 clients | >= 5 | 2.00 | no | pgvector |" in speed_tables.servers_goals(stored)
    assert "| pgvector | 20.0 | 12.5, 37.5 | 200 (38) | 200 (38) |" in speed_tables.servers(stored)
    assert "milvus" not in speed_tables.servers(stored).lower()
    assert "milvus: not measured: NotInstalled: no such version" in printed
    assert "lancedb" in printed
