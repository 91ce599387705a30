"""What a search encodes while its last word is being typed, and how many candidates it has then."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import service.runtime.runtime
from tests.service.client import CollectionClient, good, opened, runtime_of
from tests.service.test_encoding import RecordingEncoder

WORDS = (
    "sack safe sail salt sand sauce saw scale scarf screw seal seed shelf shirt shoe silk sink soap sock soup".split()
)
TEXTS = [f"{word} {'of steel' if at % 2 else 'of cotton'} number {at} {word}" for at, word in enumerate(WORDS)]


@pytest.fixture
def encoder(monkeypatch: pytest.MonkeyPatch) -> RecordingEncoder:
    recording = RecordingEncoder()
    monkeypatch.setattr(service.runtime.runtime, "load_encoder", lambda *_: recording)
    return recording


@pytest.fixture
def shop(encoder: RecordingEncoder, tmp_path: Path) -> Any:
    with opened(tmp_path / "data") as client:
        shop = CollectionClient(client)
        shop.add(*({"id": word, "text": text} for word, text in zip(WORDS, TEXTS, strict=True)))
        encoder.queries.clear()
        yield shop


def typed(shop: CollectionClient, q: str, **more: Any) -> Any:
    return shop.search(q, prefix="last", **more)


def test_finished_words_and_likely_completions_are_encoded(shop: CollectionClient, encoder: RecordingEncoder) -> None:
    for letters in range(1, len("steel soa") + 1):
        typed(shop, "steel soa"[:letters])
    assert encoder.queries == {"steel", "steel soap"}, "so and s have no likely completion"


def test_a_first_letter_ranks_by_words_alone(shop: CollectionClient, encoder: RecordingEncoder) -> None:
    answer = typed(shop, "s", explain=True, limit=50)
    assert encoder.queries == set()
    assert {hit["id"] for hit in answer["hits"]} == set(WORDS)
    for hit in answer["hits"]:
        parts = hit["explain"]["parts"]
        assert parts["completed"] > 0
        assert parts["passage"] == parts["title"] == 0
        assert hit["explain"]["keys"] == []
        assert sum(parts.values()) == pytest.approx(hit["logit"], abs=1e-4)
    assert answer["answered"] is None
    assert typed(shop, "s", explain="matrix")["matrix"].keys() == {"parts_by_documents"}
    assert typed(shop, "s", snippet=True, answer=True)["answer"]["text"] in TEXTS
    assert encoder.queries == set()


def forget(shop: CollectionClient, encoder: RecordingEncoder) -> None:
    """Forget the texts that were encoded, and their vectors."""
    runtime_of(shop.client).forget_queries()
    encoder.queries.clear()


def test_vectors_alone_encode_the_likeliest_completion(shop: CollectionClient, encoder: RecordingEncoder) -> None:
    assert typed(shop, "s", mode="dense")["hits"]
    (likeliest,) = encoder.queries
    assert likeliest.startswith("s")
    assert len(likeliest) > 1
    shop.judge("a cup", "soup", 2)
    encoder.queries.clear()
    assert typed(shop, "cotton s", mode="dense")["hits"]
    typed(shop, "cotton ", mode="dense")
    typed(shop, "cotton", mode="dense")
    assert encoder.queries == {f"cotton {likeliest}", "cotton"}, "past queries are not compared"


def test_a_correction_beside_an_unfinished_word_is_compared_with_past_queries_as_corrected(
    shop: CollectionClient, encoder: RecordingEncoder
) -> None:
    shop.judge("steel", "soup", 2)
    forget(shop, encoder)
    for q in ("stele s", "stele sa", "stele soa"):
        typed(shop, q)
    assert encoder.queries == {"steel", "steel soap"}
    typed(shop, "stele soap")
    assert encoder.queries == {"steel", "steel soap", "stele soap"}, "a whole query is remembered as it is typed"


def test_the_log_has_the_number_of_candidates(many: CollectionClient) -> None:
    def logged(q: str, **more: Any) -> Any:
        return many.get(f"queries/{many.search(q, prefix='last', **more)['query_id']}")["request"]["candidates"]

    assert logged("number so") == 50
    assert logged("number soap") == 200
    assert logged("number so", candidates=70) == 70
    assert logged("number soap", candidates=70, limit=71) == 70, "as it was asked for"


def test_words_alone_encode_nothing_but_for_what_needs_a_vector(
    shop: CollectionClient, encoder: RecordingEncoder
) -> None:
    plain = shop.search("steel soap", mode="words", explain=True)
    assert encoder.queries == set()
    with_snippets = shop.search("steel soap", mode="words", explain=True, snippet=True)
    assert encoder.queries == {"steel soap"}
    for one, other in zip(plain["hits"], with_snippets["hits"], strict=True):
        assert one == {name: other[name] for name in one}, "the vector changes no score"
    assert plain["attention"] == with_snippets["attention"]
    shop.search("steel salt", mode="words", answer=True)
    assert "steel salt" in encoder.queries


def test_rules_by_meaning_apply_to_a_search_by_words(shop: CollectionClient, encoder: RecordingEncoder) -> None:
    rule = {"query": {"near": "a bar of soap", "cosine": 0.5}, "pin": [{"id": "shoe", "position": 1}]}
    good(shop.client.put(f"{shop.path}/rules/bar", json=rule))
    encoder.queries.clear()
    assert shop.ids("bar of soap", mode="words")[0] == "shoe"
    assert encoder.queries == {"bar of soap"}
    assert not any(hit.get("pinned") for hit in typed(shop, "s")["hits"]), "a letter has no meaning"
    assert encoder.queries == {"bar of soap"}


def test_a_known_last_word_remembers_what_was_said_of_it(shop: CollectionClient, encoder: RecordingEncoder) -> None:
    shop.add({"id": "s", "text": "the letter s"})
    shop.judge("s", "soup", 2)
    forget(shop, encoder)
    found = {hit["id"]: hit["explain"]["parts"] for hit in typed(shop, "s", explain=True, limit=50)["hits"]}
    assert found["soup"]["memory"] > 0
    assert found["s"]["passage"] == 0, "s is the beginning of twenty other words: it counts by words alone"
    assert encoder.queries == {"s"}
    shop.judge("steel", "soup", 2)
    later = {hit["id"]: hit["explain"]["parts"] for hit in typed(shop, "steel sa", explain=True, limit=50)["hits"]}
    assert later["soup"]["memory"] > 0, "past queries are compared with the finished words"


@pytest.fixture
def many(tmp_path: Path) -> Any:
    with opened(tmp_path / "many") as client:
        many = CollectionClient(client)
        many.add(*({"id": str(at), "text": f"{WORDS[at % 20]} and {WORDS[at % 7]} number {at}"} for at in range(400)))
        yield many


def several(many: CollectionClient, search: dict[str, Any]) -> Any:
    body = {"searches": [{"collection": many.name, **search}]}
    return good(many.client.post("/v1/multi-search", json=body))["results"][0]


@pytest.mark.parametrize(
    "search",
    [
        lambda many, search: many.search(**search),
        several,
        lambda many, search: many.get("search", **search),
    ],
)
def test_an_unfinished_word_has_fewer_candidates_by_default(
    many: CollectionClient, search: Callable[[CollectionClient, dict[str, Any]], Any]
) -> None:
    def candidates(q: str, **more: Any) -> int:
        found: int = search(many, {"q": q, "prefix": "last", **more})["attention"]["candidates"]
        return found

    assert candidates("s") == 50
    assert candidates("number so") <= 100
    assert candidates("number so", candidates=200) > 200
    assert candidates("number soap") > 200, "a known word"
    assert candidates("number so ") > 200, "a finished word"
    assert candidates("s", limit=9, offset=1) == 50
    assert candidates("s", limit=10, offset=40) == 50, "the last page of the first step"
    assert candidates("s", limit=51) == candidates("s", limit=5, offset=46) == 200, "beyond it"
    assert candidates("s", limit=90, offset=110) == 200
    assert candidates("s", limit=201) == candidates("s", limit=10, offset=300) == 400, "all, of at most 800"


def test_the_cache_of_queries_holds_each_text_once(shop: CollectionClient) -> None:
    for q in ("steel s", "steel sa", "steel sau", "steel "):
        typed(shop, q)
    assert runtime_of(shop.client)._encode_query.cache_info().misses == 2, "steel and steel sauce"
