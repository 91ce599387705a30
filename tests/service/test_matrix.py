"""The two matrices of a search with `"explain": "matrix"`."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from index.records import Floats
from tests.service.client import CollectionClient, create, good, opened, problem, runtime_of

pytestmark = pytest.mark.usefixtures("forked_training")

QUERY = "how do I copy a folder"
TOOLS = [
    {"id": "cp", "title": "Copying folders", "text": "Use cp -r to copy a folder. It copies all files."},
    {"id": "rm", "title": "Deleting folders", "text": "Use rm -r to delete a folder."},
    {"id": "mv", "text": "Use mv to rename."},
]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with opened(tmp_path_factory.mktemp("matrix") / "data") as client:
        yield client


@pytest.fixture(scope="module")
def tools(client: TestClient) -> CollectionClient:
    tools = create(client, "tools", filterable=["n"])
    tools.add(*TOOLS)
    return tools


def vector(client: TestClient, text: str) -> Floats:
    return runtime_of(client).encoder.encode_queries([text])[0]


def encoded(tool: dict[str, str], key: dict[str, Any]) -> str:
    """Return the text that a key of a tool encodes: a passage follows its title."""
    if key["kind"] == "title":
        return tool["title"][key["start"] : key["end"]]
    return f"{tool.get('title', '')}\n{tool['text'][key['start'] : key['end']]}"


def test_a_cell_is_a_cosine_minus_the_cosine_without_the_word(client: TestClient, tools: CollectionClient) -> None:
    answer = tools.search(QUERY, explain="matrix")
    found = answer["matrix"]["words_by_keys"]
    assert found["text"] == QUERY
    assert [QUERY[one["start"] : one["end"]] for one in found["words"]] == QUERY.split()
    assert [one["word"] for one in found["words"]] == QUERY.split()
    texts = {tool["id"]: tool for tool in TOOLS}
    for column, key in enumerate(found["keys"]):
        part = encoded(texts[key["id"]], key)
        whole = float(vector(client, QUERY) @ vector(client, part))
        assert key["cosine"] == pytest.approx(whole, abs=1e-5)
        for row, word in enumerate(QUERY.split()):
            without = " ".join(one for one in QUERY.split() if one != word)
            by_hand = whole - float(vector(client, without) @ vector(client, part))
            assert found["cells"][row][column] == pytest.approx(by_hand, abs=1e-5)


def test_the_keys_are_the_keys_of_the_explanations(tools: CollectionClient) -> None:
    answer = tools.search(QUERY, explain="matrix")
    explained = [{"id": hit["id"]} | key for hit in answer["hits"] for key in hit["explain"]["keys"]]
    assert [(key["id"], key["kind"]) for key in explained] == [
        (key["id"], key["kind"]) for key in answer["matrix"]["words_by_keys"]["keys"]
    ]
    assert len(explained) == 5
    for mine, theirs in zip(answer["matrix"]["words_by_keys"]["keys"], explained, strict=True):
        assert mine == pytest.approx(theirs)


def test_the_parts_sum_to_the_logits_and_equal_the_explanations(tools: CollectionClient) -> None:
    answer = tools.search(QUERY, explain="matrix")
    found = answer["matrix"]["parts_by_documents"]
    assert [one["id"] for one in found["documents"]] == [hit["id"] for hit in answer["hits"]]
    assert [one["logit"] for one in found["documents"]] == [hit["logit"] for hit in answer["hits"]]
    for column, hit in enumerate(answer["hits"]):
        parts = {name: row[column] for name, row in zip(found["parts"], found["cells"], strict=True)}
        assert parts == hit["explain"]["parts"]
        assert sum(parts.values()) == pytest.approx(hit["logit"], abs=1e-4)


def test_a_corrected_word_is_a_row_as_it_was_encoded(tools: CollectionClient) -> None:
    found = tools.search("copy a fodler", explain="matrix")["matrix"]["words_by_keys"]
    assert (found["text"], found["words"][-1]) == ("copy a folder", {"word": "folder", "start": 7, "end": 13})


def test_operators_are_no_rows(tools: CollectionClient) -> None:
    found = tools.search("copy -rename folder", operators=True, explain="matrix")["matrix"]["words_by_keys"]
    assert [one["word"] for one in found["words"]] == ["copy", "folder"]


def test_a_search_by_words_has_no_matrix_of_keys(tools: CollectionClient) -> None:
    assert tools.search(QUERY, explain="matrix", mode="words")["matrix"].keys() == {"parts_by_documents"}
    assert tools.search("*", explain="matrix")["matrix"].keys() == {"parts_by_documents"}
    dense = tools.search(QUERY, explain="matrix", mode="dense")["matrix"]
    rows = dict(zip(dense["parts_by_documents"]["parts"], dense["parts_by_documents"]["cells"], strict=True))
    assert not any(rows["words"])
    assert all(rows["passage"])
    assert len(dense["words_by_keys"]["cells"]) == 6


def test_a_query_without_words_has_no_rows(tools: CollectionClient) -> None:
    found = tools.search("?!", explain="matrix")["matrix"]["words_by_keys"]
    assert (found["words"], found["cells"]) == ([], [])
    assert found["keys"]


def test_nothing_found_gives_empty_matrices(client: TestClient) -> None:
    found = create(client, "empty").search(QUERY, explain="matrix")["matrix"]
    assert found["parts_by_documents"]["documents"] == []
    assert set(map(len, found["parts_by_documents"]["cells"])) == {0}
    assert (found["words_by_keys"]["keys"], found["words_by_keys"]["cells"]) == ([], [[]] * 6)


def test_the_matrices_are_bounded(client: TestClient) -> None:
    many = create(client, "many", keys=["title", "passage", "sentence"])
    text = " ".join(f"Sentence {n} is about oak and elm." for n in range(12))
    many.add(*({"id": f"d{n}", "title": f"Tree {n}", "text": text} for n in range(12)))
    query = " ".join(f"w{n}" for n in range(40))
    answer = many.search(query, explain="matrix", limit=12)
    found = answer["matrix"]
    assert len(answer["hits"]) == 12
    assert all("explain" in hit for hit in answer["hits"])
    assert [one["id"] for one in found["parts_by_documents"]["documents"]] == [hit["id"] for hit in answer["hits"][:10]]
    assert (len(found["words_by_keys"]["words"]), found["words_by_keys"]["words_left_out"]) == (32, 8)
    assert len(found["words_by_keys"]["keys"]) == 40
    assert {one["kind"] for one in found["words_by_keys"]["keys"]} == {"title", "passage", "sentence"}


def test_the_second_page_has_its_own_matrices(tools: CollectionClient) -> None:
    whole = tools.search(QUERY, explain="matrix")["matrix"]
    second = tools.search(QUERY, explain="matrix", limit=1, offset=1)
    (document,) = second["matrix"]["parts_by_documents"]["documents"]
    assert (
        document
        == whole["parts_by_documents"]["documents"][1]
        == {
            "id": second["hits"][0]["id"],
            "logit": second["hits"][0]["logit"],
        }
    )


def test_all_texts_are_encoded_in_one_call(
    client: TestClient, tools: CollectionClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    encoder = runtime_of(client).encoder
    encode = encoder.encode_queries
    monkeypatch.setattr(encoder, "encode_queries", lambda texts: calls.append(len(texts)) or encode(texts))
    tools.search("how to copy many folders", explain="matrix")
    assert calls == [1, 5]
    calls.clear()
    tools.search("how to rename many folders", explain=True)
    assert calls == [1]


def test_matrices_and_answer_have_times_of_their_own(tools: CollectionClient) -> None:
    both = tools.search(QUERY, explain="matrix", answer=True)["timings_ms"]
    assert list(both)[-3:] == ["fields", "matrix", "answer"]
    assert {"matrix", "answer"}.isdisjoint(tools.search(QUERY, explain=True)["timings_ms"])


def test_a_trained_model_has_matrices_of_its_own(client: TestClient) -> None:
    wood = create(client, "wood")
    wood.add(*({"id": f"t{n}", "title": f"Tree {n}", "text": f"tree number {n} is tall"} for n in range(30)))
    for n in range(30):
        wood.judge(f"which tree has number {n}", f"t{n}", 3)
    assert wood.train(promote="never", budget_seconds=1)["status"] == "succeeded"
    answers = [wood.search("tall tree 7", explain="matrix", model=version, log=False) for version in (0, 1)]
    for answer in answers:
        parts = answer["matrix"]["parts_by_documents"]
        sums = np.asarray(parts["cells"]).sum(axis=0)
        assert sums == pytest.approx([one["logit"] for one in parts["documents"]], abs=1e-4)
        assert all(math.isfinite(cell) for row in answer["matrix"]["words_by_keys"]["cells"] for cell in row)


def test_a_get_request_takes_it_too(client: TestClient, tools: CollectionClient) -> None:
    def fetched(**more: str) -> Any:
        return client.get(f"{tools.path}/search", params={"q": QUERY} | more)

    posted = tools.search(QUERY, explain="matrix", log=False)
    assert good(fetched(explain="matrix"))["matrix"] == posted["matrix"]
    assert "matrix" not in good(fetched(explain="true"))
    body = problem(fetched(explain="Matrix"), 422, "invalid_request")
    assert body["errors"][0]["pointer"].split("/")[1] == "explain"


def test_a_multi_search_takes_it_too(client: TestClient, tools: CollectionClient) -> None:
    one = {"collection": tools.name, "q": QUERY, "explain": "matrix"}
    assert good(client.post("/v1/multi-search", json={"searches": [one]}))["results"][0]["matrix"]


@pytest.mark.parametrize("value", ["", "Matrix", "matrices", 1, None, ["matrix"]])
def test_other_values_are_refused(client: TestClient, tools: CollectionClient, value: Any) -> None:
    answer = client.post(f"{tools.path}/search", json={"q": QUERY, "explain": value})
    body = problem(answer, 422, "invalid_request")
    assert body["errors"][0]["pointer"].split("/")[1] == "explain"


def test_other_searches_have_no_matrix(tools: CollectionClient) -> None:
    assert "matrix" not in tools.search(QUERY, explain=True)
    assert "matrix" not in tools.search(QUERY)
