"""The mixed load keeps its shares and its documents, and its figures name what went wrong."""

import json
import random
from collections import Counter
from typing import Any

import pytest

from benchmarks.made_texts import NAMES, document, query, topic_of
from benchmarks.mixed import latencies, liveness, memory, stopped, training, unexpected
from benchmarks.mixed_load import said, times
from benchmarks.mixed_tables import answers, mixed
from benchmarks.mixture import BATCH, MOST_WAITING, SHARES, Mix, Wanted
from benchmarks.servers.http1 import Answer
from benchmarks.service_process import logged


def body_of(wanted: Wanted) -> Any:
    return json.loads(wanted.content.partition(b"\r\n\r\n")[2])


def line_of(wanted: Wanted) -> str:
    return wanted.content.partition(b" HTTP/1.1")[0].decode()


def answered(mix: Mix, wanted: Wanted) -> None:
    """Give the mix the answer of a service in which every topic has two documents."""
    hits = [{"id": f"doc-{topic}-{number}"} for number in range(2) for topic in NAMES]
    body = {"query_id": "q-1", "hits": hits} if wanted.kind == "search" else {"accepted": 1, "rejected": []}
    status = {"delete": 204, "events": 202}.get(wanted.kind, 200)
    mix.see(wanted, status, json.dumps(body).encode())


def test_made_documents_depend_on_the_seed_and_name_their_topic() -> None:
    made = document(random.Random(3), 12)
    assert made == document(random.Random(3), 12)
    assert topic_of(made["id"]) == made["metadata"]["topic"] == "sea"
    assert query(random.Random(3)) == query(random.Random(3))


def test_the_mix_has_its_shares_and_keeps_the_number_of_documents() -> None:
    mix, count = Mix(0, 100), 20_000
    drawn = []
    for _ in range(count):
        drawn.append(mix.next())
        answered(mix, drawn[-1])
    counts = Counter(wanted.kind for wanted in drawn)
    for kind, share in SHARES.items():
        assert counts[kind] == pytest.approx(share * count, rel=0.2, abs=10)
    new = sum(len(wanted.about) for wanted in drawn if wanted.kind in ("put", "batch"))
    assert abs(new - counts["delete"]) < 0.01 * count
    assert (
        sum(len(body_of(wanted)["documents"]) for wanted in drawn if wanted.kind == "batch") == BATCH * counts["batch"]
    )


def test_only_confirmed_documents_of_the_mix_are_deleted_and_each_once() -> None:
    mix, confirmed, deleted = Mix(0, 100), set(), []
    for number in range(3000):
        wanted = mix.next()
        if wanted.kind in ("put", "batch"):
            status = 200 if number % 2 else 503
            confirmed |= set(wanted.about) if status == 200 else set()
            mix.see(wanted, status, b"{}")
        elif wanted.kind == "delete":
            deleted.append(line_of(wanted).rpartition("/")[2])
    assert deleted
    assert len(set(deleted)) == len(deleted)
    assert set(deleted) <= confirmed
    assert all(one.startswith("new-") for one in deleted)


def test_the_documents_of_two_mixes_have_different_ids() -> None:
    ids = [{one for _ in range(50) for one in mix.batch().about} for mix in (Mix(0, 100), Mix(0, 100, "capacity"))]
    assert not ids[0] & ids[1]


def test_a_click_names_its_search_and_mostly_a_document_of_the_topic() -> None:
    mix, right, clicks = Mix(0, 100), 0, 300
    for _ in range(clicks):
        search = mix.search()
        while not search.about:
            search = mix.search()
        answered(mix, search)
        event = body_of(mix.events())
        assert (event["query_id"], event["client_id"], "user_query" in event) == ("q-1", search.about[1], False)
        clicked = event["event_attributes"]["object"]["object_id"]
        ordinal = event["event_attributes"]["position"]["ordinal"]
        assert clicked == f"doc-{NAMES[(ordinal - 1) % len(NAMES)]}-{(ordinal - 1) // len(NAMES)}"
        right += topic_of(clicked) == search.about[0]
    assert 0.8 * clicks < right < clicks


def test_searches_that_wait_for_a_click_are_bounded() -> None:
    mix = Mix(0, 100)
    for _ in range(20 * MOST_WAITING):
        answered(mix, mix.search())
    waiting = 0
    while True:
        try:
            mix.events()
        except IndexError:
            break
        waiting += 1
    assert waiting == MOST_WAITING


def test_accepted_events_and_rejections_are_counted() -> None:
    mix = Mix(0, 100)
    mix.see(Wanted("events", b""), 202, b'{"accepted": 2, "rejected": [{"index": 0, "code": "unknown_query"}]}')
    mix.see(Wanted("events", b""), 503, b"")
    assert (mix.accepted, dict(mix.rejections)) == (2, {"unknown_query": 1})


def test_an_answer_is_named_by_its_status_and_the_code_of_its_problem() -> None:
    assert said(Answer(201, b"{}", True)) == "201"
    assert said(Answer(503, b'{"code": "overloaded"}', True)) == "503 overloaded"
    assert said(Answer(500, b"oops", True)) == "500"
    assert said(Answer(0, b"IncompleteReadError", False)) == "no answer (IncompleteReadError)"


def test_statuses_that_are_not_expected_are_counted_by_kind() -> None:
    statuses = {"search": {"200": 9, "503 overloaded": 2}, "put": {"201": 1, "200": 1}, "delete": {"404 document": 1}}
    assert unexpected(statuses) == {"search: 503 overloaded": 2, "delete: 404 document": 1}


def test_searches_are_divided_by_the_training_runs_in_which_they_arrive() -> None:
    runs = [{"begun": 10.0, "ended": 20.0}, {"begun": 30.0, "ended": 40.0}]
    searches = [(9.9, 0.1), (10.0, 0.4), (19.9, 0.4), (20.0, 0.1), (35.0, 0.4), (50.0, 0.1)]
    found = latencies(searches, runs)
    assert (found["rest"]["searches"], found["training"]["searches"]) == (3, 3)
    assert found["ratio"]["p99"] == pytest.approx(4.0)
    assert "ratio" not in latencies(searches, [])


def test_the_slowest_answer_of_livez_is_named_with_its_moment() -> None:
    found = liveness([(5.0, 0.01), (12.0, 0.5), (30.0, 0.02)], [{"begun": 10.0, "ended": 20.0}])
    assert (found["live_max_ms"], found["live_slowest_at_seconds"]) == (500.0, 12.0)
    assert found["live_slowest_while_training"]
    assert liveness([], [])["live_max_ms"] is None


def test_the_slope_of_memory_leaves_out_the_time_in_which_it_settles() -> None:
    settling = [(float(at), 100.0 + at, 900.0) for at in range(0, 600, 5)]
    steady = [(float(at), 700.0 + 60 * (at - 600) / 3600, 800.0) for at in range(600, 1800, 5)]
    found = memory(settling + steady, 600)
    assert found["rss_slope_mib_per_hour"] == pytest.approx(60.0)
    assert found["rss_max_mib"] == pytest.approx(719.9, abs=0.1)
    assert found["rss_with_training_max_mib"] == 900.0
    assert len(found["rss_mib_by_minute"]) == 30
    assert memory([], 600)["rss_slope_mib_per_hour"] is None


def test_requests_without_an_answer_after_the_stop_are_counted() -> None:
    stop = {"in_flight": 4, "answers": {"search: 200": 3, "put: no answer (OSError)": 1}, "signalled": 100.0}
    found = stopped(stop, 103.5, 0)
    assert (found["in_flight"], found["unanswered"], found["seconds"], found["exit_code"]) == (4, 1, 3.5, 0)


def test_warnings_and_errors_of_a_log_are_counted_by_event() -> None:
    lines = [
        "Softseek listens on http://127.0.0.1:1",
        '{"level": "info", "event": "training_resumed"}',
        '{"level": "error", "event": "impression_lost"}',
        '{"level": "error", "event": "impression_lost"}',
        '{"level": "warning", "event": "index_rebuilt"}',
        "Traceback (most recent call last):",
    ]
    assert logged(lines) == {"error: impression_lost": 2, "tracebacks": 1, "warning: index_rebuilt": 1}


def test_the_tables_show_every_figure() -> None:
    runs = [{"begun": 10.0, "ended": 20.0, "status": "succeeded", "promoted": True, "error": None}]
    runs.append({"begun": 30.0, "ended": 40.0, "status": "failed", "promoted": None, "error": "training_failed"})
    figures: dict[str, Any] = {"documents": 100, "keys": 200, "seconds": 60.0, "capacity": 80.0, "rate": 56.0}
    figures |= {"answers": {"search": {"200": 3, "503 overloaded": 2}}, "unexpected": {"search: 503 overloaded": 2}}
    figures["times"] = {"search": times([0.1, 0.3, 0.2])}
    figures |= {"refused": 2, "late": 0, "rejections": {"unknown_query": 1}, "lost_events": 1}
    figures |= latencies([(5.0, 0.1), (15.0, 0.4)], runs) | training(runs, 60.0)
    figures |= {"unexpected_while_training": 2, "remembered_mib_per_hour": 2.0, "log": {}}
    figures |= liveness([(5.0, 0.01), (15.0, 0.02)], runs)
    figures |= memory([(float(at), 300.0, 500.0) for at in range(0, 60, 5)], 20.0)
    figures["stop"] = stopped({"in_flight": 2, "answers": {"search: 200": 2}, "signalled": 1.0}, 3.0, 0)
    text = mixed(figures)
    for row in (
        "| ratio of the p99 | 4.00 | at most 2 |",
        "| rejected events whose search was lost | 1 | 0 |",
        "| training runs | failed: training_failed: 1, succeeded: 1 | all succeed; the end cuts the last |",
        "| share of the time with a training run | 0.33 | about .5 |",
        "| requests open at SIGTERM; without an answer | 2; 0 | -; 0 |",
    ):
        assert row in text
    assert "| - |" not in text
    assert "| search | 200: 3, 503 overloaded: 2 | 200 | 300 | 300 |" in answers(figures)
    assert "| warnings and errors of the log | none | - | - | - |" in answers(figures)
