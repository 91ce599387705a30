"""A search names the sentence that is closest to the query, and whether a document answers it."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from fastapi.testclient import TestClient

from service.runtime.served_collection import Serving
from service.search import repository
from service.search.closest_sentence import MAX_CHARACTERS, MAX_SENTENCES
from tests.service.client import CollectionClient, create, opened, problem, runtime_of

BEARS = "The brown bear eats berries. Its den is dug under the roots of a tree. Cubs are born in January."
WOLVES = "Wolves hunt in packs at night. A pack has about eight wolves. The pups leave the den in spring."
QUESTION = "a den dug under the roots of a tree"
DEN = "Its den is dug under the roots of a tree."


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with opened(tmp_path_factory.mktemp("answer") / "data") as client:
        yield client


def filled(collection: CollectionClient) -> CollectionClient:
    """Add documents whose sentences are too long to be joined."""
    filler = "and " + " ".join(f"filler{at}" for at in range(30))
    for id, text in (("bears", BEARS), ("wolves", WOLVES)):
        long = " ".join(f"{sentence}. Then {filler}." for sentence in text.removesuffix(".").split(". "))
        collection.add({"id": id, "title": id, "text": long})
    return collection


@pytest.fixture(scope="module")
def animals(client: TestClient) -> CollectionClient:
    return filled(create(client, "animals"))


@pytest.fixture(scope="module")
def by_sentence(client: TestClient) -> CollectionClient:
    return filled(create(client, "by_sentence", keys=["title", "passage", "sentence"]))


@pytest.mark.parametrize("mode", ["hybrid", "dense", "words"])
@pytest.mark.parametrize("stored", [False, True])
def test_the_answer_is_the_sentence_with_the_words_of_the_question(
    animals: CollectionClient, by_sentence: CollectionClient, stored: bool, mode: str
) -> None:
    collection = by_sentence if stored else animals
    found = collection.search(QUESTION, answer=True, mode=mode)
    answer, texts = found["answer"], {hit["id"]: hit["text"] for hit in found["hits"]}
    assert (answer["id"], "roots of a tree" in answer["text"]) == ("bears", True)
    assert texts[answer["id"]][answer["start"] : answer["end"]] == answer["text"]
    assert len(answer["text"]) < len(texts["bears"]) / 2


def test_words_alone_compare_all_stored_sentences_of_a_hit(by_sentence: CollectionClient) -> None:
    """Three sentences of each document have these words, and share its weight."""
    found = by_sentence.search("then filler1 and filler2", answer=True, mode="words")
    scores = {hit["id"]: hit["score"] for hit in found["hits"]}
    assert 0 < found["answer"]["weight"] < 0.6 * scores[found["answer"]["id"]]


def test_the_weight_of_the_sentence_is_a_part_of_the_weight_of_its_document(animals: CollectionClient) -> None:
    found = animals.search(QUESTION, answer=True)
    scores = {hit["id"]: hit["score"] for hit in found["hits"]}
    assert 0 < found["answer"]["weight"] <= scores[found["answer"]["id"]] + 1e-6


def test_the_answer_does_not_depend_on_the_page_or_its_fields(animals: CollectionClient) -> None:
    answer = animals.search(QUESTION, answer=True)["answer"]
    assert animals.search(QUESTION, answer=True, limit=1, offset=1, fields=[])["answer"] == answer


def test_the_filter_concerns_the_answer(client: TestClient) -> None:
    collection = create(client, "filtered", filterable=["kind"])
    collection.add({"id": "a", "text": DEN, "metadata": {"kind": "bear"}})
    collection.add({"id": "b", "text": "A fox has an earth.", "metadata": {"kind": "fox"}})
    assert collection.search(QUESTION, answer=True, filter='kind = "fox"')["answer"]["id"] == "b"


def test_there_is_no_answer_without_hits_or_without_words(client: TestClient, animals: CollectionClient) -> None:
    assert create(client, "nothing").search(QUESTION, answer=True)["answer"] is None
    assert animals.search("*", answer=True)["answer"] is None


def test_a_document_that_was_deleted_meanwhile_is_no_answer(
    animals: CollectionClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored, forget = repository.stored_fields, runtime_of(animals.client).forget_queries
    monkeypatch.setattr(
        repository,
        "stored_fields",
        lambda database, rows: {row: one for row, one in stored(database, rows).items() if one[1] != "bears"},
    )
    forget()
    assert animals.search(QUESTION, answer=True)["answer"]["id"] == "wolves"
    forget()


@pytest.mark.parametrize("keys", [["title", "passage"], ["title", "passage", "sentence"]])
def test_a_long_text_without_spaces_has_a_bounded_answer(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, keys: list[str]
) -> None:
    collection = create(client, f"unspaced-{len(keys)}", keys=keys)
    collection.add({"id": "a", "text": "熊は木の根の下に穴を掘る" * 2000})
    encoder, counts = runtime_of(client).encoder, []
    encode = encoder.encode_queries
    monkeypatch.setattr(encoder, "encode_queries", lambda texts: counts.append(len(texts)) or encode(texts))
    found = collection.search("熊は木の根", answer=True)
    assert found["hits"][0]["text"][found["answer"]["start"] : found["answer"]["end"]] == found["answer"]["text"]
    assert len(found["answer"]["text"]) <= MAX_CHARACTERS
    assert max(counts, default=0) <= MAX_SENTENCES


LONG_SENTENCE = (
    "The committee of the eastern districts, whose members had met in the old town hall on every second Monday since "
    "the spring, and the owners of the quarries, who had sent their secretary with a letter of many pages about tolls, "
    "bridges and mules, gave the proposal about badgers some consideration."
)


@pytest.mark.parametrize("mode", ["hybrid", "words"])
@pytest.mark.parametrize("keys", [["title", "passage"], ["title", "passage", "sentence"]])
def test_the_answer_is_a_whole_sentence(client: TestClient, keys: list[str], mode: str) -> None:
    """The sentence is longer than a key."""
    collection = create(client, f"long-{len(keys)}-{mode}", keys=keys)
    collection.add({"id": "a", "text": f"A fox has an earth. {LONG_SENTENCE} Cubs are born in January. Snow fell."})
    answer = collection.search("committee of the eastern districts", answer=True, mode=mode)["answer"]
    assert answer["text"].endswith("some consideration.")
    assert LONG_SENTENCE in answer["text"]
    answer = collection.search("badgers consideration", answer=True, mode=mode)["answer"]
    text = collection.search("badgers", mode=mode)["hits"][0]["text"]
    assert LONG_SENTENCE in answer["text"]
    assert text[answer["start"] : answer["end"]] == answer["text"]


def test_signs_are_no_answer(client: TestClient) -> None:
    collection = create(client, "signs", keys=["title", "passage", "sentence"])
    collection.add({"id": "a", "title": "the den of a brown bear", "text": "* * *"})
    assert collection.search(QUESTION, answer=True)["answer"] is None
    collection.add({"id": "a", "title": "the den of a brown bear", "text": "\n\n".join([" *" * 70, f"{DEN} " * 3])})
    for query in ("* * * *", QUESTION):
        assert DEN in collection.search(query, answer=True)["answer"]["text"]


@pytest.mark.parametrize("text", ["", "  \n\n \t "])
def test_a_document_without_text_is_no_answer(client: TestClient, text: str) -> None:
    collection = create(client, f"titles-{len(text)}")
    collection.add({"id": "a", "title": "the den of a brown bear", "text": text})
    assert collection.search(QUESTION, answer=True)["answer"] is None


def test_the_answer_is_given_only_on_request(animals: CollectionClient) -> None:
    assert "answer" not in animals.search(QUESTION)
    problem(animals.client.post(f"{animals.path}/search", json={"q": "a", "answer": "maybe"}), 422, "invalid_request")


def test_get_has_the_answer(animals: CollectionClient) -> None:
    answer = animals.client.get(f"{animals.path}/search", params={"q": QUESTION, "answer": "true"}).json()["answer"]
    assert answer == animals.search(QUESTION, answer=True)["answer"]


@pytest.mark.parametrize(("offset", "answered"), [(50.0, False), (-50.0, True)])
def test_a_calibrated_null_weight_decides_whether_the_query_is_answered(
    client: TestClient, animals: CollectionClient, offset: float, answered: bool
) -> None:
    question = f"{QUESTION} zzzz"
    assert animals.search(question, answer=True)["answered"] is None
    with null_offset(client, offset):
        found = animals.search(question, answer=True)
        assert found["answered"] is answered
        assert (found["answer"] is not None) is answered
        assert animals.search(question, answer=True, mode="words")["answered"] is None


@contextmanager
def null_offset(client: TestClient, offset: float, name: str = "animals") -> Iterator[None]:
    """Let a collection be served by a head whose null slot is calibrated with this offset."""
    state = runtime_of(client).collection(name)
    before = state.serving
    state.serving = Serving(0, before.head.with_null((offset, 0.0, 0.0)))
    try:
        yield
    finally:
        state.serving = before


def test_a_query_is_not_unanswered_where_the_first_hit_has_all_its_words(
    client: TestClient, animals: CollectionClient
) -> None:
    words = " ".join(animals.search(QUESTION)["hits"][0]["text"].split()[:3])
    with null_offset(client, 50.0):
        found = animals.search(words, answer=True)
        assert found["attention"]["null_weight"] > 0.9
        assert found["answered"] is True
        assert found["answer"] is not None
        assert animals.search(f"{words} zzzz")["answered"] is False
        assert animals.search("zzzz")["answered"] is False


@pytest.mark.parametrize(
    ("q", "answered"),
    [
        ("Laterne", True),  # a part of a compound, which counts .6
        ("Haftpflischt", True),  # a correction by one edit
        ("Laterne Garten", True),
        ("Laterne Zimmer", False),
        ("Hafttpflischt", True),  # by two edits
    ],
)
def test_a_hit_has_a_word_whose_compound_or_correction_it_has(client: TestClient, q: str, answered: bool) -> None:
    if "hilfe" not in client.get("/v1/collections").text:
        create(client, "hilfe", language="german").add(
            {"id": "a", "text": "Straßenlaterne für den Garten"}, {"id": "b", "text": "Haftpflicht für Hunde"}
        )
    with null_offset(client, 50.0, "hilfe"):
        assert CollectionClient(client, "hilfe").search(q)["answered"] is answered
