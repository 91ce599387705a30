"""`events import` and `judgments import` take the logs and judgments that other systems write."""

import gzip
import json
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from service.cli import main
from service.cli.srw_judgments import scale_of
from tests.service.client import CollectionClient, opened, runtime_of
from tests.service.files import written

Softseek = Callable[..., tuple[Any, Any]]
ANIMALS = ("yak", "zebra", "okapi", "camel")


@pytest.fixture
def softseek(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Softseek]:
    """Run a command with --json where the animals are documents; return its exit code and the JSON of stdout."""
    monkeypatch.setenv("SOFTSEEK_ENCODER", "hashing")
    monkeypatch.chdir(tmp_path)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def command(*arguments: Any) -> tuple[Any, Any]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as raised:
            main([*map(str, arguments), "--json"])
        out, _ = capsys.readouterr()
        return raised.value.code, json.loads(out) if out else None

    animals = "".join(json.dumps({"id": name, "text": f"a {name}"}) + "\n" for name in ANIMALS)
    assert command("ingest", written(tmp_path / "animals.ndjson", animals))[0] == 0
    yield command
    for number, handler in before.items():
        signal.signal(number, handler)


def rows(directory: Path, statement: str) -> list[tuple[Any, ...]]:
    """Return the rows of a statement on the database of a data directory."""
    with closing(sqlite3.connect(directory / "data" / "softseek.db")) as connection:
        return connection.execute(statement).fetchall()


def ubi(action: str, query_id: str | None, document: Any, ordinal: Any = None, **more: Any) -> dict[str, Any]:
    shown = {"object_id": document, "object_id_field": "asin", "description": None}
    attributes = {"object": shown, "position": {"ordinal": ordinal, "xy": None}}
    common = {"user_query": None, "message": None, "timestamp": "2024-12-11T04:56:49.419Z"}
    return {"action_name": action, "query_id": query_id, **common, "event_attributes": attributes, **more}


def bulk(*records: tuple[str, dict[str, Any]]) -> str:
    """Return records in the bulk form: each behind the line that names its index."""
    lines = [line for index, record in records for line in ({"index": {"_index": index}}, record)]
    return "".join(json.dumps(line) + "\n" for line in lines)


QUERY = {"query_id": "q1", "user_query": "striped", "client_id": "c1", "timestamp": "2024-12-11T04:56:49Z"}
EXPORT = bulk(
    ("ubi_events", ubi("impression", "q1", "yak", 0)),
    ("ubi_events", ubi("impression", "q1", "zebra", 1)),
    ("ubi_queries", QUERY),
    ("ubi_events", ubi("impression", "q1", "okapi", 2)),
    ("ubi_events", ubi("click", "q1", "zebra", 1)),
    ("ubi_events", ubi("product_hover", "q1", "yak")),
    ("ubi_events", ubi("login", None, "button-7")),
)


@pytest.mark.parametrize("compressed", [False, True])
def test_an_export_of_opensearch_is_taken(softseek: Softseek, tmp_path: Path, compressed: bool) -> None:
    content = gzip.compress(EXPORT.encode()) if compressed else EXPORT
    code, outcome = softseek("events", "import", written(tmp_path / "ubi.ndjson", content))
    assert (code, outcome["accepted"], outcome["rejected"]) == (0, 6, [])
    assert outcome["actions"] == {"impression": 3, "click": 1, "product_hover": 1, "login": 1}
    assert outcome["notes"] == [
        "1 queries were read; events take their text from them",
        "positions begin at 0 in this file: each was raised by 1",
        "object_id_field is asin: the object_id is taken as the id of a document",
    ]
    stored = rows(tmp_path, "SELECT action_name, query_text, document_id, position, client_id, grade FROM events")
    assert stored == [
        ("impression", "striped", "yak", 1, "c1", 0.0),
        ("impression", "striped", "zebra", 2, "c1", 0.0),
        ("impression", "striped", "okapi", 3, "c1", 0.0),
        ("click", "striped", "zebra", 2, "c1", 1.0),
        ("product_hover", "striped", "yak", None, "c1", None),
        ("login", "", "button-7", None, None, None),
    ]


def test_positions_from_1_stay(softseek: Softseek, tmp_path: Path) -> None:
    events = [ubi("impression", "q1", name, at, user_query="striped") for at, name in enumerate(ANIMALS, 1)]
    _, outcome = softseek("events", "import", written(tmp_path / "a.json", json.dumps(events)))
    assert outcome["accepted"] == 4
    assert rows(tmp_path, "SELECT position FROM events") == [(1,), (2,), (3,), (4,)]


def test_a_record_that_is_neither_event_nor_query_is_refused(softseek: Softseek, tmp_path: Path) -> None:
    nameless = {name: value for name, value in ubi("click", "q1", "yak").items() if name != "action_name"}
    path = written(tmp_path / "a.ndjson", bulk(("ubi_events", nameless), ("ubi_queries", {"query_id": "q2"})))
    code, outcome = softseek("events", "import", path)
    assert (code, [one["line"] for one in outcome["rejected"]]) == (3, [2, 4])
    assert {one["detail"] for one in outcome["rejected"]} == {"action_name: is required"}


def test_a_row_of_clicks_on_an_unknown_document_is_refused_once(softseek: Softseek, tmp_path: Path) -> None:
    path = written(tmp_path / "clicks.csv", "query,document,clicks\nstriped,unicorn,7\n")
    code, outcome = softseek("events", "import", path)
    assert (code, [(one["line"], one["code"]) for one in outcome["rejected"]]) == (3, [(2, "unknown_document")])


def test_hits_of_a_query_without_impressions_become_impressions(softseek: Softseek, tmp_path: Path) -> None:
    query = QUERY | {"query_response_hit_ids": ["yak", "okapi"]}
    records = [
        {"_index": "ubi_queries", "_source": query},
        {"_index": "ubi_events", "_source": ubi("click", "q1", "yak")},
    ]
    path = written(tmp_path / "dump.jsonl", "\n".join(map(json.dumps, records)))
    code, outcome = softseek("events", "import", path)
    assert (code, outcome["accepted"]) == (0, 3)
    assert "2 impressions were made from the hits of queries without impressions" in outcome["notes"]
    found = rows(tmp_path, "SELECT document_id, position FROM events WHERE action_name = 'impression'")
    assert found == [("yak", 1), ("okapi", 2)]


def test_imported_impressions_of_a_query_are_one_shown_list(tmp_path: Path) -> None:
    from service.runtime.feedback_log import gather_feedback

    with opened(tmp_path / "data") as client:
        zoo = CollectionClient(client)
        zoo.add(*({"id": name, "text": f"a {name}"} for name in ANIMALS))
        logged = zoo.search("striped")["query_id"]
        events = [ubi("impression", "q1", name, at, user_query="striped") for at, name in enumerate(ANIMALS[:3], 1)]
        events += [ubi("click", "q1", "zebra", user_query="striped", client_id="c")]
        events += [ubi("impression", logged, "yak", 1)]  # its list is logged
        assert zoo.post("events", events)["rejected"] == []
        runtime = runtime_of(client)
        runtime.impressions.flush()
        with runtime.database.read() as connection:
            names = {row.row: row.id for row in _documents(connection, zoo.id)}
            (feedback,) = gather_feedback(connection, zoo.id)
    assert feedback.clicks is not None
    assert {names[row]: by for row, by in feedback.clicks.items()} == {"zebra": {2: 1}}
    shown = {names[row]: sum(by.values()) for row, by in (feedback.shown or {}).items()}
    assert shown["zebra"] == shown["yak"] == 2  # the imported list and the logged list
    assert {names[row] for row in feedback.examined} == {"yak", "zebra", "okapi"}


def test_events_take_a_numeric_client_and_session_from_their_query(softseek: Softseek, tmp_path: Path) -> None:
    query = QUERY | {"query_id": 1, "client_id": 7, "session_id": 12.0, "query_response_hit_ids": ["yak"]}
    path = written(tmp_path / "ubi.ndjson", bulk(("ubi_queries", query), ("ubi_events", ubi("click", "1", "yak"))))
    code, outcome = softseek("events", "import", path)
    assert (code, outcome["accepted"], outcome["rejected"]) == (0, 2, [])
    stored = rows(tmp_path, "SELECT action_name, query_id, client_id, session_id FROM events")
    assert stored == [("impression", "1", "7", "12"), ("click", "1", "7", "12")]


def test_numbers_of_an_event_that_name_its_query_client_session_and_user_are_text(
    softseek: Softseek, tmp_path: Path
) -> None:
    event = ubi("click", None, "yak", user_query=2024, client_id=7.0, session_id=12, user_id=3.0) | {"query_id": 1}
    code, outcome = softseek("events", "import", written(tmp_path / "a.ndjson", json.dumps(event)))
    assert (code, outcome["rejected"]) == (0, [])
    columns = "query_text, query_id, client_id, session_id, json_extract(body, '$.user_id')"
    assert rows(tmp_path, f"SELECT {columns} FROM events") == [("2024", "1", "7", "12", "3")]


def _documents(connection: Any, collection_id: int) -> Any:
    from service.documents.repository import documents_after

    return documents_after(connection, collection_id, 0, 100)


def test_clicks_and_ratings_of_a_table_are_taken(softseek: Softseek, tmp_path: Path) -> None:
    table = "Query,Document,Clicks,Rating,Time\nstriped,zebra,3,,2024-05-01\nhumps,camel,,4,\n"
    table += "humps,yak,,9,\nx,,1,,\nx,yak,,²,\n"
    code, outcome = softseek("events", "import", written(tmp_path / "clicks.csv", table))
    assert (code, outcome["accepted"], outcome["actions"]) == (3, 4, {"click": 3})
    assert [(one["line"], one["detail"]) for one in outcome["rejected"]] == [
        (4, "rating: must be at most 4"),
        (5, "document: is required"),
        (6, "rating: must be a whole number"),
    ]
    assert outcome["notes"] == ["1 ratings were stored as judgments"]
    events = rows(tmp_path, "SELECT query_text, document_id, timestamp FROM events")
    assert events == [("striped", "zebra", "2024-05-01T00:00:00.000Z")] * 3
    assert rows(tmp_path, "SELECT query_text, document_id, rating, rater FROM judgments") == [
        ("humps", "camel", 4, "import")
    ]


@pytest.mark.parametrize(
    ("columns", "clients"),
    [("user_id", ("ann", "ann")), ("User_ID,client_id", ("ann", "b-1")), ("client_id,user_id", ("b-1", "ann"))],
)
def test_an_erasure_of_a_user_removes_clicks_and_ratings_of_a_table(
    softseek: Softseek, tmp_path: Path, columns: str, clients: tuple[str, str]
) -> None:
    names = columns.split(",")
    row = ",".join(clients[: len(names)])
    table = f"query,document,clicks,rating,{columns}\nstriped,zebra,2,,{row}\nhumps,camel,,4,{row}\n"
    assert softseek("events", "import", written(tmp_path / "clicks.csv", table))[0] == 0
    client = "b-1" if "client_id" in names else "ann"
    assert rows(tmp_path, "SELECT client_id, json_extract(body, '$.user_id') FROM events") == [(client, "ann")] * 2
    code, receipt = softseek("erase", "--user", "ann")
    assert (code, receipt["erased"]["events"], receipt["erased"]["judgments"]) == (0, 2, 1)
    assert rows(tmp_path, "SELECT count(*) FROM events") == rows(tmp_path, "SELECT count(*) FROM judgments") == [(0,)]


def test_a_client_of_a_table_without_users_is_no_user(softseek: Softseek, tmp_path: Path) -> None:
    table = "query,document,clicks,rating,client\nstriped,zebra,1,,b-1\nhumps,camel,,4,b-1\n"
    assert softseek("events", "import", written(tmp_path / "clicks.csv", table))[0] == 0
    assert rows(tmp_path, "SELECT client_id, json_extract(body, '$.user_id') FROM events") == [("b-1", None)]
    assert rows(tmp_path, "SELECT rater FROM judgments") == [("b-1",)]


def test_a_second_import_of_a_table_adds_its_clicks_and_replaces_its_ratings(
    softseek: Softseek, tmp_path: Path
) -> None:
    path = written(tmp_path / "clicks.csv", "query,document,clicks,rating\nstriped,zebra,2,\nhumps,camel,,4\n")
    for times in (1, 2):
        assert softseek("events", "import", path)[0] == 0
        assert rows(tmp_path, "SELECT count(*) FROM events") == [(2 * times,)]
        assert rows(tmp_path, "SELECT count(*) FROM judgments") == [(1,)]


def test_a_quote_of_a_table_of_clicks_that_is_not_closed_is_reported(softseek: Softseek, tmp_path: Path) -> None:
    path = written(tmp_path / "clicks.csv", 'query,document,clicks\nhumps,yak,1\n"striped,zebra,3\nhumps,camel,1\n')
    code, outcome = softseek("events", "import", path)
    assert (code, outcome["accepted"]) == (3, 1)
    assert [(one["line"], one["detail"]) for one in outcome["rejected"]] == [(3, "a quote is not closed")]


def test_a_row_of_many_clicks_is_cut_and_noted(softseek: Softseek, tmp_path: Path) -> None:
    path = written(tmp_path / "clicks.tsv", "user_query\tdoc_id\tclicks\nstriped\tzebra\t5000\nstriped\tyak\tmany\n")
    code, outcome = softseek("events", "import", path)
    assert (code, outcome["accepted"], outcome["rejected"][0]["detail"]) == (3, 100, "clicks: must be a whole number")
    assert outcome["notes"] == [
        "1 rows have more than 100 clicks: 100 were taken, more have no effect",
        "1 rows have no time: they count as of now",
    ]


LOG = (("impression", 1), ("view", 2), ("Thumbs Down", 3), ("buy", 4), ("add-to-cart", 5), ("like", 6), ("CLICK", 7))


@pytest.mark.parametrize("column", ["action", "Event_Type", "event", "action_name", "type"])
def test_the_actions_of_a_table_are_kept(softseek: Softseek, tmp_path: Path, column: str) -> None:
    head = f"query,document,{column},position,timestamp,user_id,query_id,session_id,device\n"
    table = head + "".join(f"striped,yak,{name},{at},2026-01-0{at},w{at},q{at},s,phone\n" for name, at in LOG)
    code, outcome = softseek("events", "import", written(tmp_path / "log.csv", table))
    assert (code, outcome["accepted"], outcome["rejected"]) == (0, 7, [])
    assert outcome["notes"] == ["these columns were ignored: device"]
    actions = ("impression", "impression", "thumbs_down", "purchase", "add_to_cart", "thumbs_up", "click")
    assert outcome["actions"] == {"impression": 2} | dict.fromkeys(actions[2:], 1)
    names = "action_name, position, timestamp, client_id, query_id, session_id"
    assert rows(tmp_path, f"SELECT {names} FROM events") == [
        (action, at, f"2026-01-0{at}T00:00:00.000Z", f"w{at}", f"q{at}", "s") for at, action in enumerate(actions, 1)
    ]


def test_a_row_of_a_table_without_a_known_action_is_refused(softseek: Softseek, tmp_path: Path) -> None:
    table = (
        "query,document,action,rating\nx,yak,hover,3\nx,yak,,\nx,yak,rating,\nx,yak,rate,3\nx,camel,,2\nx,yak,click,\n"
    )
    code, outcome = softseek("events", "import", written(tmp_path / "log.csv", table))
    known = "impression, click, watch, add_to_cart, purchase, thumbs_up, thumbs_down, rating"
    assert (code, outcome["accepted"], outcome["actions"]) == (3, 3, {"click": 1})
    assert [(one["line"], one["detail"]) for one in outcome["rejected"]] == [
        (2, f"action: 'hover' is not one of {known}"),
        (3, "action: is required"),
        (4, "rating: is required"),
    ]
    assert rows(tmp_path, "SELECT document_id, rating FROM judgments") == [("yak", 3), ("camel", 2)]


def test_a_type_beside_clicks_is_no_action(softseek: Softseek, tmp_path: Path) -> None:
    table = "query,document,type,clicks\nstriped,zebra,animal,2\n"
    code, outcome = softseek("events", "import", written(tmp_path / "clicks.csv", table))
    assert (code, outcome["actions"]) == (0, {"click": 2})
    assert "these columns were ignored: type" in outcome["notes"]


@pytest.mark.parametrize("column", ["type", "event"])
def test_a_row_takes_the_first_of_the_columns_that_it_fills(softseek: Softseek, tmp_path: Path, column: str) -> None:
    head = f"query,user_query,document,{column},clicks,position,rank,user_id,user,time,date\n"
    table = head + ",striped,yak,sale,1,1,0,,ada,,2026-01-02\nstriped,,yak,sale,1,2,1,bob,,2026-01-03,\n"
    code, outcome = softseek("events", "import", written(tmp_path / "log.csv", table))
    assert (code, outcome["accepted"], outcome["notes"]) == (0, 2, [f"these columns were ignored: {column}"])
    found = rows(tmp_path, "SELECT client_id, position, substr(timestamp, 1, 10) FROM events ORDER BY id")
    assert found == [("ada", 1, "2026-01-02"), ("bob", 2, "2026-01-03")]


def test_clicks_beside_actions(softseek: Softseek, tmp_path: Path) -> None:
    table = "query,document,action,clicks\nstriped,yak,view,5\nstriped,yak,,2\n"
    code, outcome = softseek("events", "import", written(tmp_path / "log.csv", table))
    assert (code, outcome["actions"]) == (0, {"impression": 1, "click": 2})
    assert "1 rows have clicks beside another action: each is one event of that action" in outcome["notes"]


def test_positions_of_a_table_begin_at_1(softseek: Softseek, tmp_path: Path) -> None:
    table = "query,document,clicks,position\nstriped,zebra,1,0\nstriped,yak,1, 4.00\nstriped,camel,1,3.4\n"
    code, outcome = softseek("events", "import", written(tmp_path / "clicks.csv", table))
    assert code == 0
    assert outcome["notes"][1:] == [
        "1 rows have a position that is no whole number from 0 on: it was left out",
        "positions begin at 0 in this file: each was raised by 1",
    ]
    assert rows(tmp_path, "SELECT position FROM events") == [(1,), (5,), (None,)]


def srw(*ratings: Any) -> dict[str, Any]:
    """Return an export of the Search Relevance Workbench with a query, and a rating for each animal."""
    judged = [{"docId": name, "rating": rating} for name, rating in zip(ANIMALS, ratings, strict=False)]
    return {"name": "judged", "judgmentRatings": [{"query": "striped", "ratings": judged}]}


@pytest.mark.parametrize(
    ("ratings", "flags", "grades"),
    [
        (("0.0", "100", "50.0", "87.5"), [], [0, 4, 2, 4]),
        (("0.000", "3.000", "2.000"), [], [0, 3, 2]),
        (("0.1", "0.9", "1.0"), [], [0, 4, 4]),
        ((0, 1), [], [0, 1]),
        (("0", "3", "2"), ["--scale", 100], [0, 0, 0]),
        ((20, 5), ["--scale", 20], [4, 1]),
    ],
)
def test_judgments_of_the_workbench_become_grades(
    softseek: Softseek, tmp_path: Path, ratings: tuple[Any, ...], flags: list[Any], grades: list[int]
) -> None:
    path = written(tmp_path / "judgments.json", json.dumps(srw(*ratings), indent=1))
    code, outcome = softseek("judgments", "import", path, "--rater", "ann", *flags)
    assert (code, outcome["accepted"], outcome["rejected"]) == (0, len(grades), [])
    assert "became grades from 0 to 4" in outcome["notes"][0]
    stored = dict(rows(tmp_path, "SELECT document_id, rating FROM judgments WHERE rater = 'ann'"))
    assert [stored[name] for name in ANIMALS[: len(grades)]] == grades


def test_a_rating_that_is_no_number_or_beyond_the_scale_is_refused(softseek: Softseek, tmp_path: Path) -> None:
    path = written(tmp_path / "judgments.json", json.dumps({"_source": srw("good", "101", "-1", "40")}))
    code, outcome = softseek("judgments", "import", path)
    assert (code, outcome["accepted"]) == (3, 1)
    assert [(one["item"], one["detail"]) for one in outcome["rejected"]] == [
        (at, "rating: must be a number from 0 to 100") for at in (1, 2, 3)
    ]


def test_a_file_without_judgments_is_refused_as_an_export(softseek: Softseek, tmp_path: Path) -> None:
    path = written(tmp_path / "judgments.json", '{"query": "x"}')
    assert softseek("judgments", "import", path, "--format", "srw")[0] == 2


def test_models_are_measured_on_judgments_of_the_workbench(softseek: Softseek, tmp_path: Path) -> None:
    path = written(tmp_path / "judgments.json", json.dumps(srw(100, 0), indent=1))
    code, outcome = softseek("evaluate", "--models", "0", "--qrels", path)
    assert (code, outcome["queries"]) == (0, 1)


def test_the_whole_file_tells_the_scale() -> None:
    assert [scale_of(srw(*ratings)) for ratings in ((0, 1), (0.5, 1), (4, 0.5), (5,), ())] == [4, 1, 4, 100, 100]


def test_refused_events_are_not_counted_by_action(softseek: Softseek, tmp_path: Path) -> None:
    lines = [{"name": "no event"}, {"name": "no event"}, {"action_name": "click"}, ubi("click", "q1", "zebra", 1)]
    records = [json.dumps(line) + "\n" for line in [*lines, QUERY]]
    code, outcome = softseek("events", "import", written(tmp_path / "ubi.ndjson", "".join(records)))
    assert (code, outcome["accepted"], len(outcome["rejected"])) == (3, 1, 3)
    assert outcome["actions"] == {"click": 1}
