"""The whole loop: documents, searches, clicks, better searches, training, the decision of the gate, rollback."""

import hashlib
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select

from service.storage.tables import KEYS
from tests.faults.test_states import copy_of_killed
from tests.service.client import DEADLINE_SECONDS, CollectionClient, create, good, opened, runtime_of
from tests.service.stored_models import stored_model
from tests.service.training_processes import forked_runs

HERBS = (
    "basil oregano thyme rosemary sage parsley dill mint chives fennel tarragon marjoram coriander lavender lovage "
    "sorrel chervil borage hyssop rue savory verbena nettle yarrow dandelion arnica valerian camomile"
).split()
NOISE = "soil water sun shade seed leaf root stem bloom frost".split()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("flow") / "data"


@pytest.fixture(scope="module")
def client(data: Path) -> Iterator[TestClient]:
    with opened(data) as client:
        yield client


@pytest.fixture
def garden(client: TestClient, request: pytest.FixtureRequest) -> CollectionClient:
    """A new collection with three nearly equal documents and a different document."""
    garden = create(client, request.node.name.replace("_", "-")[:100])
    garden.add(
        {"id": "first", "text": "how to dry herbs for the winter"},
        {"id": "second", "text": "how to dry herbs in the oven for winter"},
        {"id": "third", "text": "freezing herbs in the winter, and how they dry"},
        {"id": "other", "text": "repairing a bicycle tyre"},
    )
    return garden


QUERY = "dry herbs for winter"


def test_a_click_raises_its_document_in_the_next_search(garden: CollectionClient) -> None:
    shown = garden.search(QUERY, client_id="c1")
    last = shown["hits"][2]
    clicked = garden.act(last["id"], query_id=shown["query_id"], client_id="c1", position=3)
    assert clicked == {"accepted": 1, "rejected": []}
    (again,) = [hit for hit in garden.search(QUERY, explain=True)["hits"] if hit["id"] == last["id"]]
    assert again["logit"] > last["logit"]
    assert again["score"] > last["score"]
    assert again["explain"]["parts"]["memory"] > 0
    (past,) = [key for key in again["explain"]["keys"] if key["kind"] == "query"]
    assert (past["query"], past["from"], past["query_id"]) == (QUERY, "event", shown["query_id"])


def test_many_clicks_rank_a_document_first_only_for_their_query(garden: CollectionClient) -> None:
    elsewhere = garden.ranking("bicycle tyre")
    second = garden.ids(QUERY)[1]
    for _ in range(20):
        garden.act(second, query_id=garden.search(QUERY)["query_id"])
    assert garden.ids(QUERY)[0] == second
    assert garden.ranking("bicycle tyre") == elsewhere


def test_deleting_an_event_restores_the_ranking_exactly(garden: CollectionClient) -> None:
    garden.act("first", query_id=garden.search(QUERY)["query_id"], client_id="another client")
    before = garden.ranking(QUERY)
    shown = garden.search(QUERY)
    garden.act("third", query_id=shown["query_id"])
    assert garden.ranking(QUERY) != before
    assert garden.post("events/delete", {"query_id": shown["query_id"]}) == {"deleted": 1}
    assert garden.ranking(QUERY) == before
    assert garden.get()["counts"]["keys"]["query"] == 1


def test_a_judgment_raises_its_document_by_its_rating(garden: CollectionClient) -> None:
    before = {one: logit for one, logit, _ in garden.ranking(QUERY)}
    garden.judge(QUERY, "second", 1)
    clicked = {one: logit for one, logit, _ in garden.ranking(QUERY)}
    garden.judge(QUERY, "second", 4)
    judged = {one: logit for one, logit, _ in garden.ranking(QUERY)}
    assert before["second"] < clicked["second"] < judged["second"]


def herbarium(client: TestClient, name: str, decoys: bool) -> CollectionClient:
    """Return a collection in which each herb has a document with its name in the title, judged relevant for its name.

    With decoys, other documents repeat the name in their text, so that an untrained search ranks them first: a model
    must learn that titles are better evidence than texts.
    """
    herbs = create(client, name)
    noise = [f"{a} {b} {c}" for a in NOISE for b in NOISE for c in NOISE if a < b < c]
    documents = []
    for at, herb in enumerate(HERBS):
        documents.append({"id": herb, "title": f"{herb} spice", "text": noise[at]})
        if decoys:
            documents += [
                {"id": f"{herb}-{n}", "title": noise[-at - n - 1], "text": f"{herb} {herb} {herb}"} for n in range(2)
            ]
    herbs.add(*documents)
    judgments = [{"query": f"{herb}", "document_id": herb, "rating": 4} for herb in HERBS]
    herbs.post("judgments", {"judgments": judgments})
    return herbs


def digest(paths: list[Path]) -> str:
    """Return the sha256 of files (names and bytes)."""
    found = hashlib.sha256()
    for path in sorted(paths):
        found.update(f"{path.name}\n".encode() + path.read_bytes())
    return found.hexdigest()


@dataclass(frozen=True)
class Stored:
    """Checksums of the data that training must not change: the keys in the tables, and the saved index."""

    keys: str
    index: str


def stored(herbs: CollectionClient, data: Path) -> Stored:
    keys = hashlib.sha256()
    with runtime_of(herbs.client).database.read() as connection:
        columns = select(KEYS.c.id, KEYS.c.document_row, KEYS.c.kind, KEYS.c.weight, KEYS.c.vector)
        for row in connection.execute(columns.where(KEYS.c.collection_id == herbs.id).order_by(KEYS.c.id)):
            keys.update(repr(tuple(row)).encode())
    folder = data / "indexes" / str(herbs.id)
    files = [path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(".lock")]
    assert folder / "manifest.json" in files
    return Stored(keys.hexdigest(), digest(files))


@dataclass(frozen=True)
class Learned:
    """A collection in which training improves searches, and its training runs."""

    herbs: CollectionClient
    before: Stored
    after: Stored
    never: Any
    auto: Any
    refused: Any
    """The response to the start of a second run during the first."""
    untrained: list[str]
    """The ids that an untrained search returns for `valerian tea`."""


@pytest.fixture(scope="module")
def learned(client: TestClient, data: Path) -> Learned:
    herbs = herbarium(client, "decoys", decoys=True)
    runtime_of(client).save()
    before, untrained = stored(herbs, data), herbs.ids("valerian tea")
    started = herbs.post("training-runs", {"seed": 7, "promote": "never"})
    refused = client.post(f"{herbs.path}/training-runs", json={})
    never = herbs.ended_run(started["id"])
    after = stored(herbs, data)
    with forked_runs():  # the other run had a process that the service started
        auto = herbs.train(seed=7)
    return Learned(herbs, before, after, never, auto, refused, untrained)


@pytest.fixture(scope="module")
def plain(client: TestClient) -> tuple[CollectionClient, Any]:
    """A collection in which an untrained search is already right, and its training run."""
    herbs = herbarium(client, "plain", decoys=False)
    with forked_runs():
        return herbs, herbs.train()


def test_a_run_reports_a_comparison_on_held_out_queries(learned: Learned) -> None:
    run = learned.auto
    assert (run["status"], run["error"], run["seed"]) == ("succeeded", None, 7)
    assert run["progress"]["done"] == run["progress"]["total"] > 0
    assert {step["phase"] for step in run["steps"]} >= {"examples", "choose", "evaluate"}
    assert run["data"]["judgments"] == len(HERBS)
    counted = run["report"]["queries"]
    assert counted["train"] + counted["test"] == len(HERBS)
    counts = run["report"]["held_out_queries"]
    assert counts["test"] == counted["test"] > 0
    for measure in ("nDCG@10", "R@100"):
        held_out = run["report"]["held_out"][measure]
        assert held_out["queries"] == sum(counts.values())
        assert held_out["low"] <= held_out["difference"] <= held_out["high"]
        assert 0 <= held_out["p_value"] <= 1


def test_a_model_that_passes_the_gate_is_promoted(learned: Learned) -> None:
    decision = learned.auto["decision"]
    assert (decision["promote"], decision["promoted"]) == (True, True)
    assert all(check["passed"] for check in decision["checks"])
    assert decision["reasons"]
    assert learned.auto["report"]["held_out"]["nDCG@10"]["low"] > 0
    assert learned.herbs.get()["champion"] == learned.auto["model_version"]
    assert learned.herbs.search("anything")["model"] == {"version": learned.auto["model_version"], "alias": "champion"}


def test_a_run_without_promotion_keeps_its_decision_and_the_reason(learned: Learned) -> None:
    decision = learned.never["decision"]
    assert (decision["promote"], decision["promoted"]) == (True, False)
    assert "promotion was not asked for" in decision["reasons"]


def test_a_second_run_is_refused_during_the_first(learned: Learned) -> None:
    assert (learned.refused.status_code, learned.refused.json()["code"]) == (409, "training_already_running")


def test_training_changes_no_key_and_no_index(learned: Learned) -> None:
    assert learned.before == learned.after


def test_the_same_log_and_seed_give_identical_models_in_a_started_and_in_a_forked_process(
    learned: Learned, data: Path
) -> None:
    versions = [learned.never["model_version"], learned.auto["model_version"]]
    assert versions == [1, 2]
    one, other = (stored_model(data, version, learned.herbs.id)["head.safetensors"] for version in versions)
    assert one == other
    assert learned.never["report"]["held_out"] == learned.auto["report"]["held_out"]


def test_a_model_has_its_lineage(learned: Learned) -> None:
    listed = learned.herbs.get("models")
    assert [one["version"] for one in listed["models"]] == [0, 1, 2]
    assert listed["aliases"]["champion"] == 2
    model = learned.herbs.get("models/2")
    lineage = model["lineage"]
    assert (lineage["parent"], lineage["seed"], lineage["training_run"]) == (0, 7, learned.auto["id"])
    assert lineage["data"]["queries"] == len(HERBS)
    assert model["report"]["held_out"] == learned.auto["report"]["held_out"]
    compared = learned.herbs.get("models/compare", a=0, b=2)
    assert (compared["a"]["version"], compared["b"]["version"]) == (0, 2)


@pytest.mark.parametrize("which", ["never", "auto"])
def test_a_model_keeps_the_decision_of_its_run(learned: Learned, which: str) -> None:
    run = getattr(learned, which)
    assert learned.herbs.get(f"models/{run['model_version']}")["decision"] == run["decision"]


def test_a_trained_model_generalises_to_new_queries(learned: Learned) -> None:
    query = "valerian tea"
    herbs = learned.herbs
    assert learned.untrained[0].startswith("valerian-")
    assert herbs.ids(query, model=2)[0] == "valerian"
    assert herbs.ids(query, model=0) == learned.untrained


def test_models_are_measured_on_given_judgments(learned: Learned) -> None:
    qrels = {f"{herb} seed": {herb: 2} for herb in HERBS[:10]}
    task = learned.herbs.post("evaluations", {"models": [0, 2], "measures": ["nDCG@10", "RR"], "qrels": qrels})
    result = learned.herbs.ended_task(task)["result"]
    assert result["queries"] == 10
    untrained, trained = (one["measures"]["nDCG@10"] for one in result["models"])
    assert untrained["mean"] < trained["mean"]
    assert trained["low"] <= trained["mean"] <= trained["high"]
    compared = {one["measure"]: one for one in result["comparisons"]}
    assert compared.keys() == {"nDCG@10", "RR"}
    assert compared["nDCG@10"]["models"] == [0, 2]
    assert compared["nDCG@10"]["difference"] == pytest.approx(trained["mean"] - untrained["mean"])


def test_an_evaluation_on_stored_feedback_gives_the_figures_of_the_run(learned: Learned) -> None:
    task = learned.herbs.ended_task(learned.herbs.post("evaluations", {"models": [0, 2], "measures": ["nDCG@10"]}))
    assert task["status"] == "succeeded"
    held_out = learned.auto["report"]["held_out"]["nDCG@10"]
    (compared,) = task["result"]["comparisons"]
    assert (compared["a"], compared["b"]) == (held_out["a"], held_out["b"])


def test_a_model_that_failed_the_gate_is_promoted_only_by_force(plain: tuple[CollectionClient, Any]) -> None:
    herbs, run = plain
    champion = f"{herbs.path}/models/aliases/champion"
    assert (run["status"], run["decision"]["promote"], run["decision"]["promoted"]) == ("succeeded", False, False)
    assert run["decision"]["reasons"]
    version = run["model_version"]
    assert herbs.get(f"models/{version}")["decision"]["checks"] == run["decision"]["checks"]
    refused = herbs.client.put(champion, json={"version": version, "reason": "try"})
    assert (refused.status_code, refused.json()["code"]) == (409, "promotion_gate_failed")
    failing = [check["reason"] for check in run["decision"]["checks"] if not check["passed"]]
    assert [one["detail"] for one in refused.json()["errors"]] == failing != []
    assert herbs.search("sage")["model"]["version"] == 0
    before = herbs.ranking("sage", model=0)
    forced = good(herbs.client.put(champion, json={"version": version, "reason": "I insist", "force": True}))
    assert (forced["version"], forced["history"][0]["reason"]) == (version, "I insist")
    assert herbs.search("sage")["model"]["version"] == version
    back = herbs.post("models/aliases/champion/rollback")
    assert back["version"] == 0
    assert herbs.search("sage")["model"]["version"] == 0
    assert herbs.ranking("sage") == before
    again = herbs.client.post(f"{champion}/rollback")
    assert (again.status_code, again.json()["code"]) == (409, "nothing_to_roll_back")


def test_the_stream_of_a_run_has_all_steps_and_the_end(learned: Learned) -> None:
    with learned.herbs.client.stream(
        "GET", f"{learned.herbs.path}/training-runs/{learned.auto['id']}/stream"
    ) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        names = [line.removeprefix("event: ") for line in stream.iter_lines() if line.startswith("event: ")]
    assert names == ["step"] * len(learned.auto["steps"]) + ["end"]
    listed = learned.herbs.get("training-runs")["training_runs"]
    assert [one["id"] for one in listed] == [run["id"] for run in (learned.auto, learned.never)]


def test_a_run_canceled_before_its_process_started_leaves_no_model(
    plain: tuple[CollectionClient, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    herbs, _ = plain
    models = herbs.get("models")
    may_start = threading.Event()

    class LatePopen(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            may_start.wait(DEADLINE_SECONDS)
            super().__init__(*arguments, **options)

    monkeypatch.setattr(subprocess, "Popen", LatePopen)
    run = herbs.post("training-runs", {"seed": 1})
    answer = herbs.client.post(f"{herbs.path}/training-runs/{run['id']}/cancel")
    assert answer.status_code == 202
    may_start.set()
    assert herbs.ended_run(run["id"])["status"] == "canceled"
    assert herbs.get("models") == models


@pytest.mark.sqlite
def test_a_restart_keeps_documents_memory_and_champion(tmp_path: Path, learned: Learned, data: Path) -> None:
    """The last test of this file: it uses a copy of the directory, made while the service writes nothing."""
    herbs = learned.herbs
    garden = create(herbs.client, "kept", filterable=["year"])
    garden.add(
        {"id": "a", "text": "sowing herbs in spring", "metadata": {"year": 2020}}, {"id": "b", "text": "harvest"}
    )
    garden.act("b", query_id=garden.search("sowing herbs")["query_id"])
    runtime_of(herbs.client).impressions.flush()
    copy = tmp_path / "data"
    copy_of_killed(runtime_of(herbs.client), data, copy)
    with opened(copy) as again:
        for spoken in (herbs, garden):
            reopened = CollectionClient(again, spoken.name)
            counted = reopened.get()
            assert counted == spoken.get()
            for query in ("sowing herbs", "valerian tea", "harvest"):
                assert reopened.ranking(query) == spoken.ranking(query)
        assert CollectionClient(again, "decoys").search("sage")["model"]["version"] == 2
