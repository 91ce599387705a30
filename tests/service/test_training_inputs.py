"""The inputs of a training run are read from its staging folder unchanged; a run observes its cost budget."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from index.encoding.encoder import Encoder
from index.errors import DamagedFile
from index.learning.examples import Feedback
from index.ranking.retrieval import Query, as_searched
from service.runtime.feedback_log import gather_feedback
from service.training.inputs import load_inputs, read_inputs, write_inputs
from tests.index.fixtures import arrays_of
from tests.service.client import CollectionClient, create, know_no_emoji, opened, problem, runtime_of

pytestmark = pytest.mark.usefixtures("forked_training")

TREES = ("oak", "pine", "birch", "willow", "maple")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with opened(tmp_path_factory.mktemp("inputs") / "data") as client:
        yield client


@pytest.fixture(scope="module")
def wood(client: TestClient) -> CollectionClient:
    """A collection with every kind of feedback: clicks on lists, a solved search, thumbs down, judgments."""
    wood = create(client, "wood", language="english", attention={"heads": 2})
    wood.add(*({"id": tree, "text": f"the {tree} is a tall tree"} for tree in TREES))
    wood.act("maple", user_query="red leaves", session_id="s", timestamp="2020-01-01T10:00:00Z")
    query_id = wood.search("tall tree", session_id="s")["query_id"]
    for tree, action in (("pine", "click"), ("oak", "purchase"), ("birch", "thumbs_down")):
        wood.act(tree, action, query_id=query_id, client_id="ada")
    wood.post("events", {"action_name": "thumbs_up", "query_id": query_id, "timestamp": "2026-09-20T10:00:00Z"})
    wood.search("tall tree", session_id="s")
    wood.act("maple", user_query="Ahorn \u00fc\u2028")
    wood.judge("broad leaves", "oak", 3)
    wood.judge("broad leaves", "maple", 4, rater="bob")
    return wood


def written(wood: CollectionClient, directory: Path) -> Path:
    with runtime_of(wood.client).database.read() as connection:
        write_inputs(directory, connection, wood.id)
    return directory


def plain(one: Feedback) -> dict[str, Any]:
    typed = None if one.memory_vector is None else one.memory_vector.tobytes()
    return vars(one) | {"vector": one.vector.tobytes(), "memory_vector": typed}


def test_documents_newer_than_all_lists_are_read_and_a_change_makes_no_document_new(
    client: TestClient, tmp_path: Path
) -> None:
    wood = create(client, "new-trees")
    wood.add(*({"id": tree, "text": f"the {tree} is a tall tree"} for tree in TREES))
    query_id = wood.search("tall tree", limit=2)["query_id"]
    wood.act(wood.ids("tall tree")[0], query_id=query_id)
    time.sleep(0.002)  # created_at has milliseconds
    wood.add({"id": "larch", "text": "the larch is a tall tree"})
    for tree in (*TREES, "larch"):  # a change gives a document a new row
        wood.add({"id": tree, "text": f"the {tree} is a very tall tree"})
    wood.client.patch(f"{wood.path}/documents/{wood.ids('tall tree')[0]}", json={"metadata": {"price": 3}})
    with runtime_of(wood.client).database.read() as connection:
        row = connection.exec_driver_sql(
            "SELECT row FROM documents WHERE collection_id = ? AND id = 'larch'", (wood.id,)
        ).scalar()
        write_inputs(tmp_path / "inputs", connection, wood.id)
    assert read_inputs(tmp_path / "inputs").new == {row}


def test_feedback_is_read_unchanged(wood: CollectionClient, tmp_path: Path) -> None:
    read = read_inputs(written(wood, tmp_path / "inputs")).feedback
    with runtime_of(wood.client).database.read() as connection:
        gathered = gather_feedback(connection, wood.id)
    assert [plain(one) for one in read] == [plain(one) for one in gathered]
    assert any(one.sessions for one in read)
    assert any(one.examined for one in read)
    assert any(one.contexts for one in read)
    assert any(one.contrasts for one in read)
    assert any(one.clients for one in read)
    assert any(one.shown is None for one in read)


def test_feedback_with_contexts_and_explored_lists_is_read_unchanged(client: TestClient, tmp_path: Path) -> None:
    thicket = create(client, "thicket", language="english")
    thicket.add(*({"id": tree, "text": f"the {tree} is a tall tree"} for tree in TREES))
    thicket.act("maple", user_query="red leaves", session_id="s", timestamp="2020-01-01T10:00:00Z")
    query_id = thicket.search("tall tree", session_id="s", explore=1.0)["query_id"]
    thicket.act("pine", query_id=query_id)
    thicket.search("a tree without a click", explore=1.0)
    thicket.search("another tree")
    runtime = runtime_of(client)
    runtime.impressions.flush()
    encode = runtime.encoder.encode_queries
    with runtime.database.read() as connection:
        write_inputs(tmp_path / "inputs", connection, thicket.id, lambda _: runtime.encoder, explored=True)
        gathered = gather_feedback(connection, thicket.id, encode, explored=True)
    read = read_inputs(tmp_path / "inputs").feedback
    assert [plain(one) for one in read] == [plain(one) for one in gathered]
    assert any(one.contexts and one.explored for one in read)
    assert {one.query_key for one in read if one.is_silent} == {"a tree without a click", "another tree"}


def test_training_encodes_a_query_as_searches_do(
    client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop, runtime = create(client, "tools"), runtime_of(client)
    know_no_emoji(monkeypatch, runtime)
    shop.add({"id": "hammer", "text": "hammer"}, {"id": "anvil", "text": "anvil"})
    texts = ("hammer", "hamer", "hammer \U0001f4a5", "hamer \U0001f4a5", "\U0001f4a5")
    for text in texts:
        shop.judge(text, "hammer", 3)
    with runtime.database.read() as connection:
        write_inputs(tmp_path / "inputs", connection, shop.id, lambda _: runtime.encoder, runtime.encoder.words)
    generation = runtime.collection("tools").generation
    unread = np.zeros(generation.dim, np.float32)
    read = {one.text: one for one in read_inputs(tmp_path / "inputs").feedback}
    assert sorted(read) == sorted(texts)
    for text, one in read.items():
        searched = as_searched(generation, Query(text, unread), runtime.encoder.encode_query)
        trained = one.as_query()
        assert (trained.known, trained.encoded) == (searched.known, searched.encoded), text
        assert trained.vector.tobytes() == searched.vector.tobytes(), text
        assert (trained.memory_vector is None) == (searched.memory_vector is None), text
        if searched.memory_vector is not None and trained.memory_vector is not None:
            assert trained.memory_vector.tobytes() == searched.memory_vector.tobytes(), text
    corrected, spelled = read["hamer"], read["hammer"]
    assert corrected.vector.tobytes() == spelled.vector.tobytes()
    assert corrected.memory_vector is not None
    assert [read[text].known for text in texts] == [1, 1, 0.5, 0.5, 0]


def test_an_encoder_is_loaded_for_corrected_and_unusual_texts_alone(client: TestClient, tmp_path: Path) -> None:
    shop, runtime = create(client, "plain-tools"), runtime_of(client)
    shop.add({"id": "hammer", "text": "hammer"}, {"id": "anvil", "text": "anvil"})
    loaded = []

    def load(name: str) -> Encoder:
        loaded.append(name)
        return runtime.encoder

    for number, (text, loads) in enumerate({"hammer": [], "hammer ": [], "anvyl": ["hashing"]}.items()):
        shop.judge(text, "hammer", 3)
        with runtime.database.read() as connection:
            write_inputs(tmp_path / str(number), connection, shop.id, load)
        assert loaded == loads, text


def test_a_word_that_the_encoder_knows_is_not_corrected(client: TestClient, tmp_path: Path) -> None:
    shop, runtime = create(client, "known-tools"), runtime_of(client)
    shop.add({"id": "hammer", "text": "hammer"}, {"id": "anvil", "text": "anvil"})
    shop.judge("hamer", "hammer", 3)
    for name, known, is_corrected in (("unknown", "", True), ("known", "hamer", False)):
        load = {"load": lambda _: runtime.encoder, "known": frozenset({known})}
        (one,) = load_inputs(tmp_path / name, runtime.database, shop.id, **load).feedback
        assert (one.memory_vector is not None) == is_corrected


def test_the_generation_is_read_unchanged(wood: CollectionClient, tmp_path: Path) -> None:
    inputs = read_inputs(written(wood, tmp_path / "inputs"))
    live = runtime_of(wood.client).collection("wood")
    expected = arrays_of(live.generation)
    for name, array in arrays_of(inputs.generation).items():
        assert np.array_equal(array, expected[name]), name
    assert (inputs.generation.watermark, inputs.initial) == (live.generation.watermark, live.initial)
    read, remembered = (
        [(key.row, key.query_key, key.weight, key.count, key.vector.tobytes()) for key in one.memory.keys]
        for one in (inputs.generation, live.generation)
    )
    assert read == remembered != []


def test_inputs_without_a_manifest_are_gathered_again(wood: CollectionClient, tmp_path: Path) -> None:
    directory = written(wood, tmp_path / "inputs")
    (directory / "manifest.json").unlink()
    (directory / "texts.json").write_text("torn")
    with pytest.raises(DamagedFile):
        read_inputs(directory)
    inputs = load_inputs(directory, runtime_of(wood.client).database, wood.id)
    assert (
        [one.query_key for one in inputs.feedback] == [one.query_key for one in read_inputs(directory).feedback] != []
    )


@pytest.mark.parametrize("name", ["arrays.npz", "texts.json", "index/keys-1.f32"])
def test_damaged_inputs_are_gathered_again(wood: CollectionClient, tmp_path: Path, name: str) -> None:
    file = written(wood, tmp_path / "inputs") / name
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(DamagedFile):
        read_inputs(tmp_path / "inputs")
    again = load_inputs(tmp_path / "inputs", runtime_of(wood.client).database, wood.id)
    intact = read_inputs(written(wood, tmp_path / "intact"))
    assert [plain(one) for one in again.feedback] == [plain(one) for one in intact.feedback] != []
    assert again.generation.keys.tobytes() == intact.generation.keys.tobytes()


def test_complete_inputs_are_not_gathered_again(wood: CollectionClient, tmp_path: Path) -> None:
    directory = written(wood, tmp_path / "inputs")
    before = load_inputs(directory, runtime_of(wood.client).database, wood.id)
    wood.judge("a later query", "oak", 4)
    after = load_inputs(directory, runtime_of(wood.client).database, wood.id)
    assert [plain(one) for one in after.feedback] == [plain(one) for one in before.feedback]


# --- The budget ---


@pytest.mark.parametrize("budget", [0, 3601, 1.5, "60", None])
def test_a_budget_out_of_range_is_refused(wood: CollectionClient, budget: Any) -> None:
    body = problem(
        wood.client.post(f"{wood.path}/training-runs", json={"budget_seconds": budget}), 422, "invalid_request"
    )
    assert body["errors"][0]["pointer"] == "/budget_seconds"


def test_a_larger_budget_allows_more_trials_and_the_record_lists_them(client: TestClient) -> None:
    names = [f"tree{at}" for at in range(40)]
    wood = create(client, "budgets")
    wood.add(*({"id": name, "text": f"{name} leaf"} for name in names))
    wood.post("judgments", {"judgments": [{"query": name, "document_id": name, "rating": 4} for name in names]})
    small, usual = wood.train(budget_seconds=1, promote="never"), wood.train(promote="never")
    assert (small["budget_seconds"], usual["budget_seconds"]) == (1, 45)
    tried = [run["report"]["recipe"]["validation_ndcg"].keys() for run in (small, usual)]
    skipped = [run["report"]["recipe"]["skipped"] for run in (small, usual)]
    assert tried[0] < tried[1]
    assert set(skipped[0]) > set(skipped[1])
    assert wood.get("models/1")["lineage"]["budget_seconds"] == 1
    assert usual["report"]["train_seconds"] > 0


def test_a_query_with_only_a_solved_session_is_an_input(client: TestClient, tmp_path: Path) -> None:
    grove = create(client, "grove")
    grove.add(*({"id": tree, "text": f"the {tree} is a tall tree"} for tree in TREES))
    query_id = grove.search("shade")["query_id"]
    grove.post("events", {"action_name": "thumbs_up", "query_id": query_id, "timestamp": "2026-09-20T10:00:00Z"})
    read = read_inputs(written(grove, tmp_path / "inputs")).feedback
    assert [one.text for one in read] == ["shade"]
    assert read[0].sessions
    assert np.linalg.norm(read[0].vector) == pytest.approx(1.0, abs=1e-5)
