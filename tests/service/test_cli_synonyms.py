"""The commands of synonyms, on a data directory and against a server."""

import gzip
import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from service.cli import synonym_files
from service.collections.synonyms import MAX_SYNONYMS, SynonymsIn
from service.http.requests import MAX_BODY_BYTES
from tests.service.client import create, opened
from tests.service.test_cli import Fake, Run, fake, problem, run

__all__ = ["fake", "run"]


@pytest.fixture(autouse=True)
def hashing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOFTSEEK_ENCODER", "hashing")


@pytest.fixture
def data(tmp_path: Path) -> tuple[object, ...]:
    """The options of a collection with the documents `tv` and `television`, each with its own word."""
    with opened(tmp_path / "data") as client:
        create(client, "shop").add({"id": "tv", "text": "a tv"}, {"id": "television", "text": "a television"})
    return ("--collection", "shop", "--data", tmp_path / "data")


def found(run: Run, query: str, data: tuple[object, ...]) -> set[str]:
    answer = json.loads(run("search", query, "--mode", "words", "--json", *data).out)
    return {hit["id"] for hit in answer["hits"]}


def test_synonyms_are_set_listed_shown_and_deleted(run: Run, data: tuple[object, ...]) -> None:
    stored = run("synonyms", "set", "screens", "--words", "tv, flat screen", "--words", "television", "--json", *data)
    entry = {"id": "screens", "words": ["tv", "flat screen", "television"], "from": None}
    assert (stored.code, json.loads(stored.out)) == (0, entry)
    assert json.loads(run("synonyms", "list", "--json", *data).out) == {"synonyms": [entry]}
    assert json.loads(run("synonyms", "get", "screens", "--json", *data).out) == entry
    for command in (("list",), ("get", "screens")):
        shown = run("synonyms", *command, *data).out
        assert all(word in shown for word in ("screens", "tv, flat screen, television", "from"))
    assert run("synonyms", "delete", "screens", *data).out == "synonyms screens are deleted\n"
    for name in ("get", "delete"):
        gone = run("synonyms", name, "screens", *data)
        assert (gone.code, gone.out) == (1, "")
        assert gone.err.startswith("synonyms_not_found: ")
    assert json.loads(run("synonyms", "list", "--json", *data).out) == {"synonyms": []}


def test_two_way_synonyms_find_each_other(run: Run, data: tuple[object, ...]) -> None:
    assert found(run, "tv", data) == {"tv"}
    stored = run("synonyms", "set", "screens", "--words", "tv,television", *data)
    assert stored.out == "synonyms screens: tv, television find each other\n"
    assert found(run, "tv", data) == found(run, "television", data) == {"tv", "television"}
    assert json.loads(run("synonyms", "delete", "screens", "--json", *data).out) == {"deleted": "screens"}
    assert found(run, "tv", data) == {"tv"}


def test_one_way_synonyms_are_found_from_their_word_alone(run: Run, data: tuple[object, ...]) -> None:
    stored = run("synonyms", "set", "screens", "--words", "television", "--from", "tv", *data)
    assert stored.out == "synonyms screens: tv also finds television\n"
    assert found(run, "tv", data) == {"tv", "television"}
    assert found(run, "television", data) == {"television"}


def test_an_entry_is_replaced_as_a_whole(run: Run, data: tuple[object, ...]) -> None:
    run("synonyms", "set", "screens", "--words", "television", "--from", "tv", *data)
    replaced = json.loads(run("synonyms", "set", "screens", "--words", "tv,telly", "--json", *data).out)
    assert replaced == {"id": "screens", "words": ["tv", "telly"], "from": None}


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--words", "tv"), 1, "two different words"),
        (("--words", "tv", "--from", "tv"), 1, "two different words"),
        (("--words", "tv,TV"), 1, "two different words"),
        (("--words", "café", "--from", "CAFE"), 1, "two different words"),
        (("--words", "!!!,tv"), 1, "two different words"),
        (("--words", "tv,television", "--from", "!!!"), 1, "two different words"),
        (("--words", ","), 1, "/words"),
        (("--words", ",".join(f"w{at}" for at in range(51))), 1, "/words"),
        (("--from", "tv"), 2, "Missing option '--words'"),
    ],
)
def test_refused_synonyms_are_not_stored(
    run: Run, data: tuple[object, ...], arguments: tuple[str, ...], code: int, said: str
) -> None:
    ended = run("synonyms", "set", "screens", *arguments, *data)
    assert (ended.code, ended.out) == (code, "")
    assert said in " ".join(ended.err.split())
    assert json.loads(run("synonyms", "list", "--json", *data).out) == {"synonyms": []}


def test_a_server_gets_the_entry_under_its_encoded_id(fake: Fake, run: Run) -> None:
    path = "/v1/collections/shop/synonyms/big%20screens"
    fake.on("PUT", path, (201, {"id": "big screens", "words": ["tv"], "from": "telly"}))
    asked = ("--words", "tv", "--from", "telly", "--collection", "shop", "--url", fake.url)
    assert run("synonyms", "set", "big screens", *asked).code == 0
    assert fake.sent(path) == [{"words": ["tv"], "from": "telly"}]
    fake.on("PUT", path, (422, problem("too_many_synonyms", "a collection has at most 10,000 entries of synonyms")))
    ended = run("synonyms", "set", "big screens", *asked)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err == "too_many_synonyms: a collection has at most 10,000 entries of synonyms\n"


SOLR = """# what people call a television
tv, television

flat\\, screen, telly => tv, telly
[set]\\\\, box => tv
couch=>sofa
"""


def test_a_file_of_solr_is_imported_and_imported_again_changes_nothing(
    run: Run, data: tuple[object, ...], tmp_path: Path
) -> None:
    (tmp_path / "synonyms.txt").write_text(SOLR)
    stored = run("synonyms", "import", tmp_path / "synonyms.txt", *data)
    assert stored.out == "6 stored, 0 deleted, 6 in shop\n"
    listed = json.loads(run("synonyms", "list", "--json", *data).out)["synonyms"]
    assert sorted((entry["from"] or "", entry["words"]) for entry in listed) == [
        ("", ["tv", "television"]),
        ("[set]\\", ["tv"]),
        ("box", ["tv"]),
        ("couch", ["sofa"]),
        ("flat, screen", ["tv", "telly"]),
        ("telly", ["tv"]),
    ]
    assert found(run, "telly", data) == {"tv"}
    again = json.loads(run("synonyms", "import", tmp_path / "synonyms.txt", "--json", *data).out)
    assert again == {"stored": 6, "deleted": 0, "entries": 6}


def test_a_list_is_imported_elsewhere_in_place_of_all_others(
    run: Run, data: tuple[object, ...], tmp_path: Path
) -> None:
    run("synonyms", "set", "screens", "--words", "tv,television", *data)
    listed = run("synonyms", "list", "--json", *data).out
    (tmp_path / "list.json").write_text(listed)
    (tmp_path / "list.json.gz").write_bytes(gzip.compress(listed.encode("utf-16")))
    run("synonyms", "set", "old", "--words", "sofa,couch", *data)
    done = json.loads(run("synonyms", "import", tmp_path / "list.json", "--replace-all", "--json", *data).out)
    assert done == {"stored": 1, "deleted": 1, "entries": 1}
    again = json.loads(run("synonyms", "import", tmp_path / "list.json.gz", "--json", *data).out)
    assert again == {"stored": 1, "deleted": 0, "entries": 1}
    (tmp_path / "lines.jsonl").write_text('{"id": "a", "words": ["x", "y"]}\n\n{"words": ["q"], "from": "r"}\n')
    assert json.loads(run("synonyms", "import", tmp_path / "lines.jsonl", "--json", *data).out)["entries"] == 3
    (tmp_path / "array.json").write_text('[{"id": "a", "words": ["x", "z"]}]')
    assert json.loads(run("synonyms", "import", tmp_path / "array.json", "--json", *data).out)["entries"] == 3
    assert json.loads(run("synonyms", "get", "a", "--json", *data).out)["words"] == ["x", "z"]


def test_the_bounds_of_a_file_are_those_of_the_service() -> None:
    assert (synonym_files.MOST_BYTES, synonym_files.MOST_ENTRIES) == (MAX_BODY_BYTES, MAX_SYNONYMS)
    SynonymsIn(words=[f"w{n}" for n in range(synonym_files.MOST_WORDS)])
    with pytest.raises(ValidationError, match="at most 50"):
        SynonymsIn(words=[f"w{n}" for n in range(synonym_files.MOST_WORDS + 1)])


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (
            "a.txt",
            "tv, television\nalone\na => b => c\n => b\n",
            ["3 faulty", "line 2: expected", "line 3:", "line 4:"],
        ),
        ("a.txt", b"tv, \xff\n", ["line 1: not UTF-8"]),
        ("a.txt", "tv,\u2028telly\r\nalone\r\n", ["line 2: expected"]),
        ("a.txt", "tv, television\n\nTV, tv\n", ["invalid_request", "line 3: ", "at least two different words"]),
        ("a.jsonl", '{"words": ["x", "y"]}\n[]\n', ["line 2: "]),
        ("a.json", '{"synonyms": [{"words": ["x", "y"]}, 7]}', ["item 2: not an object"]),
        ("a.json", '[{"id": ["a"], "words": ["x", "y"]}]', ["item 1: the id is no text"]),
        (
            "a.jsonl",
            '{"id": "a", "words": ["x", "y"]}\n{"id": "a", "words": ["p", "q"]}',
            ["line 2: the id is repeated"],
        ),
        ("a.txt", "# nothing\n", ["a.txt: has no synonyms"]),
        ("a.json", '{"synonyms": []}', ["a.json: has no synonyms"]),
        ("a.txt", ",".join(f"w{n}" for n in range(51)), ["line 1: has more than 50 words"]),
        ("a.txt", ",".join(f"w{n}" for n in range(10_001)) + " => tv", ["has more than 10000 entries"]),
        ("a.txt", "tv" * 5_000_000, ["has more than 8388608 bytes"]),
        ("a.txt.gz", b"\x1f\x8bno gzip", ["a.txt.gz: "]),
        ("a.jsonl", '{"words": ["x", "y"]}\n{"word": ["x"]}\n', ["invalid_request", "line 2/word"]),
    ],
)
def test_a_faulty_file_stores_nothing_and_its_lines_are_named(
    run: Run, data: tuple[object, ...], tmp_path: Path, name: str, text: str | bytes, said: list[str]
) -> None:
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    ended = run("synonyms", "import", tmp_path / name, *data)
    assert (ended.code, ended.out) == (1, "")
    assert [one for one in said if one not in ended.err] == [], ended.err
    assert json.loads(run("synonyms", "list", "--json", *data).out) == {"synonyms": []}
