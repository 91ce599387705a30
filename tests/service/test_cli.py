"""The command line against a fake server: the requests, the output and the exit codes."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Protocol

import pytest

from service.cli import app, main

PROGRAM = [sys.executable, "-c", "from service.start import main; main()"]
ROOT = Path(__file__).parents[2]


@dataclass
class Fake:
    """A server that responds from a table; the last response of a path is repeated."""

    url: str
    answers: dict[tuple[str, str], list[tuple[int, Any]]] = field(default_factory=dict)
    requests: list[tuple[str, str, bytes]] = field(default_factory=list)
    arrived: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def on(self, method: str, path: str, *answers: Any) -> None:
        """Set the responses of a path, in order. A response is a body, or (status, body)."""
        self.answers[method, path] = [one if isinstance(one, tuple) else (200, one) for one in answers]

    def sent(self, path: str) -> list[Any]:
        """Return the JSON bodies that were sent to a path."""
        return [json.loads(body) for _, target, body in self.requests if target == path and body]


class Handler(BaseHTTPRequestHandler):
    """Responds for a Fake."""

    protocol_version = "HTTP/1.1"
    fake: Fake

    def handle_any(self) -> None:
        path = self.path.split("?")[0]
        self.fake.requests.append((self.command, path, self._body()))
        self.fake.arrived.release()
        answers = self.fake.answers.get((self.command, path), [(404, problem("not_found", "nothing here"))])
        status, body = answers.pop(0) if len(answers) > 1 else answers[0]
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        if status == 503:
            self.send_header("Retry-After", "0")
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_DELETE = handle_any  # noqa: N815

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def log_message(self, *_: Any) -> None:
        """Write no log."""


def problem(code: str, detail: str, *errors: dict[str, str]) -> dict[str, Any]:
    return {"code": code, "detail": detail, "status": 422, "errors": list(errors)}


SETTINGS = {"settings": {"filterable": ["lang", "year"]}}


@pytest.fixture
def fake() -> Iterator[Fake]:
    class Bound(Handler):
        pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Bound)
    Bound.fake = Fake(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield Bound.fake
    server.shutdown()
    thread.join()
    server.server_close()


@dataclass(frozen=True)
class Ended:
    """The exit code and the output of a command."""

    code: int | str | None
    out: str
    err: str


class Run(Protocol):
    def __call__(self, *arguments: Any) -> Ended: ...


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Run]:
    """Run a command in this process, in an empty folder and without settings."""
    for name in [name for name in os.environ if name.upper().startswith("SOFTSEEK_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    handler = signal.getsignal(signal.SIGTERM)

    def command(*arguments: Any) -> Ended:
        capsys.readouterr()
        with pytest.raises(SystemExit) as raised:
            main([str(argument) for argument in arguments])
        return Ended(raised.value.code, *capsys.readouterr())

    yield command
    signal.signal(signal.SIGTERM, handler)


def lines_file(path: Path, *values: Any) -> Path:
    path.write_text("".join(f"{value if isinstance(value, str) else json.dumps(value)}\n" for value in values))
    return path


HIT = {"id": "d1", "position": 1, "score": 0.5, "logit": 2.0, "title": "One", "text": "some text", "highlights": []}
FOUND = {
    "hits": [HIT],
    "model": {"version": 3},
    "attention": {"null_weight": 0.1},
    "page": {"has_more": False},
    "degraded": [],
    "took_ms": 1.5,
}


def test_help_and_commands_for_a_server_import_neither_torch_nor_the_application(tmp_path: Path) -> None:
    code = (
        "import sys, contextlib\nfrom service.cli import main\n"
        "for arguments in (['--help'], ['search', 'x', '--url', 'http://127.0.0.1:9']):\n"
        "    with contextlib.suppress(SystemExit):\n        main(arguments)\n"
        "sys.exit(bool({'torch', 'service.app', 'service.runtime.runtime'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "no server at http://127.0.0.1:9" in done.stderr


def test_every_command_has_an_example_in_the_docs() -> None:
    groups = [("", app), *((f"{group.name} ", group.typer_instance) for group in app.registered_groups)]
    names = [
        f"{prefix}{command.name or getattr(command.callback, '__name__', '')}"
        for prefix, group in groups
        if group is not None
        for command in group.registered_commands
    ]
    text = (ROOT / "docs" / "cli.md").read_text()
    assert len(names) == 56
    assert [name for name in names if f"    softseek {name}" not in text] == []


def test_a_search_shows_hits_and_with_json_only_the_response(fake: Fake, run: Run) -> None:
    fake.on("POST", "/v1/collections/shop/search", FOUND)
    shown = run("search", "red shoe", "--limit", 3, "--model", 2, "--collection", "shop", "--url", fake.url)
    assert shown.code == 0
    assert "One" in shown.out
    assert "some text" in shown.out
    as_json = run("search", "red shoe", "--filter", "year > 2", "--json", "--collection", "shop", "--url", fake.url)
    assert json.loads(as_json.out) == FOUND
    assert fake.sent("/v1/collections/shop/search") == [
        {"q": "red shoe", "limit": 3, "offset": 0, "model": 2, "explain": False},
        {"q": "red shoe", "limit": 10, "offset": 0, "filter": "year > 2", "explain": False},
    ]


def test_a_search_shows_predicted_values(fake: Fake, run: Run) -> None:
    more = {"coverage": 0.9, "effective_sample_size": 3.25, "documents": 9}
    kind = {"type": "categories", "distribution": [{"value": "sh\x1boe", "weight": 0.72}], "other_weight": 0.28} | more
    quantiles = {"0.1": 8.0, "0.5": 9.0, "0.9": 18.5}
    price = {"type": "number", "mean": 12.3, "standard_deviation": 4.1, "quantiles": quantiles} | more
    fake.on("POST", "/v1/collections/default/search", FOUND | {"predictions": {"kind": kind, "price": price}})
    shown = run("search", "x", "--predict", "kind", "--predict", "price", "--url", fake.url)
    assert "kind: sh\ufffdoe 72%; coverage 90%, effective 3.2 documents" in shown.out
    assert "price: 12.3000 (standard deviation 4.1000, 80% 8.0000 to 18.5000)" in shown.out
    assert fake.sent("/v1/collections/default/search")[0]["predict"] == ["kind", "price"]


def test_control_characters_in_documents_are_removed(fake: Fake, run: Run) -> None:
    evil = HIT | {"title": "a\x1b[2Jb", "text": "\x1b]0;x\x07 [bold]y[/bold]"}
    fake.on("POST", "/v1/collections/default/search", FOUND | {"hits": [evil]})
    shown = run("search", "x", "--url", fake.url)
    assert "\x1b" not in shown.out
    assert "[bold]y[/bold]" in shown.out


def test_a_problem_is_shown_with_its_errors_and_ends_with_1(fake: Fake, run: Run) -> None:
    answer = problem("invalid_filter", "unknown field", {"pointer": "/filter", "detail": "at 3"})
    fake.on("POST", "/v1/collections/default/search", (422, answer))
    ended = run("search", "x", "--json", "--url", fake.url)
    assert ended == Ended(1, "", "invalid_filter: unknown field\n  /filter: at 3\n")


def test_a_request_to_a_busy_server_is_repeated(fake: Fake, run: Run) -> None:
    fake.on("POST", "/v1/collections/default/search", (503, problem("overloaded", "wait")), FOUND)
    assert run("search", "x", "--url", fake.url).code == 0
    assert len(fake.requests) == 2


def test_a_response_of_another_server_is_an_error(fake: Fake, run: Run) -> None:
    fake.on("POST", "/v1/collections/default/search", (502, b"<html>"))
    ended = run("search", "x", "--url", fake.url)
    assert (ended.code, ended.out) == (1, "")
    assert "status 502" in ended.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["search"], "Missing argument"),
        (["nonsense"], "No such command"),
        (["ingest", "missing.ndjson"], "does not exist"),
        (["events", "import", "missing.ndjson"], "does not exist"),
        (["ingest", "."], "no file of a known type"),
        (["search", "x", "--url", "127.0.0.1:8080"], "such as http://"),
        (["search", "x", "--url", "http://127.0.0.1:9", "--data", "d"], "exclude each other"),
        (["search", "x", "--limit", "0"], "greater than or equal to 1"),
        (["search", "caf\udce9"], "argument 2 is not UTF-8"),
        (["rules", "set", "r", "--hide", "a"], "one of --exact, --contains and --near"),
        (["train", "--no-wait"], "--no-wait needs a server"),
        (["train", "--budget", "3601"], "less than or equal to 3600"),
        (["evaluate", "--models", "one"], "version numbers"),
        (["serve", "--port", "65536"], "less than or equal to 65535"),
    ],
)
def test_wrong_use_ends_with_2(run: Run, arguments: list[str], said: str) -> None:
    ended = run(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert said in " ".join(ended.err.split())


def test_an_unknown_format_ends_with_2(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"\0\1")
    ended = run("ingest", tmp_path / "a.bin", "--url", "http://127.0.0.1:9")
    assert ended.code == 2
    assert "--format" in ended.err


@pytest.mark.parametrize(("name", "value"), [("SOFTSEEK_DATAA", "x"), ("SOFTSEEK_PORT", "many")])
def test_an_unknown_or_invalid_setting_ends_with_2(
    run: Run, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    ended = run("search", "x", "--url", "http://127.0.0.1:9")
    assert ended.code == 2
    assert name.removeprefix("SOFTSEEK_").lower() in ended.err.lower()


def finished(result: Any, **more: Any) -> dict[str, Any]:
    return {"id": "t1", "status": "succeeded", "progress": {"done": 1, "total": 1}, "result": result, **more}


def test_ingest_creates_the_collection_streams_the_documents_and_names_lines(
    fake: Fake, run: Run, tmp_path: Path
) -> None:
    fake.on("PUT", "/v1/collections/shop", (201, {}))
    fake.on("GET", "/v1/collections/shop", SETTINGS)
    fake.on("POST", "/v1/collections/shop/documents/import", (202, {"id": "t1", "status": "enqueued"}))
    wrong = {"index": 1, "id": "b", "status": 422, "code": "invalid_document", "detail": "text: too long"}
    result = {"items_total": 2, "succeeded": 1, "failed": 1, "errors": [wrong]}
    fake.on("GET", "/v1/tasks/t1", {"status": "processing", "progress": {"done": 0, "total": 2}}, finished(result))
    path = lines_file(tmp_path / "a.ndjson", {"id": "a", "text": "x"}, "{", "", {"id": "b", "text": "y"})
    flags = ["--collection", "shop", "--filterable", "lang, year", "--url", fake.url, "--json"]
    ended = run("ingest", path, *flags)
    assert ended.code == 3
    outcome = json.loads(ended.out)
    assert (outcome["items_total"], outcome["succeeded"], outcome["failed"]) == (3, 1, 2)
    assert [one["line"] for one in outcome["errors"]] == [2, 4]
    assert "a.ndjson line 4 (b): invalid_document: text: too long" in ended.err
    assert fake.sent("/v1/collections/shop") == [{"filterable": ["lang", "year"]}]
    assert fake.requests[2][2] == b'{"id":"a","text":"x"}\n{"id":"b","text":"y"}\n'


def test_a_failed_task_ends_with_1(fake: Fake, run: Run, tmp_path: Path) -> None:
    fake.on("GET", "/v1/collections/default", SETTINGS)
    fake.on("POST", "/v1/collections/default/documents/import", (202, {"id": "t1"}))
    fake.on("GET", "/v1/tasks/t1", {"status": "failed", "error": {"code": "disk_full", "detail": "no room"}})
    ended = run("ingest", lines_file(tmp_path / "a.ndjson", {"id": "a", "text": "x"}), "--url", fake.url)
    assert (ended.code, ended.err) == (1, "disk_full: no room\n")


def test_events_are_sent_in_batches_and_rejections_name_the_line(fake: Fake, run: Run, tmp_path: Path) -> None:
    refused = {"accepted": 500, "rejected": [{"index": 500, "code": "invalid_event", "detail": "no timestamp"}]}
    fake.on("POST", "/v1/collections/default/events", (202, {"accepted": 1000, "rejected": []}), (202, refused))
    values: list[Any] = [{"action_name": f"%s{at}"} for at in range(1501)]
    path = lines_file(tmp_path / "a.ndjson", "not json", *values)
    ended = run("events", "import", path, "--url", fake.url, "--json")
    assert ended.code == 3
    assert [len(batch) for batch in fake.sent("/v1/collections/default/events")] == [1000, 501]
    outcome = json.loads(ended.out)
    assert outcome["accepted"] == 1500
    assert [one["line"] for one in outcome["rejected"]] == [1, 1502]


def test_a_refused_batch_shows_how_many_records_were_accepted(fake: Fake, run: Run, tmp_path: Path) -> None:
    answers = (202, {"accepted": 1000, "rejected": []}), (413, problem("payload_too_large", "less, please"))
    fake.on("POST", "/v1/collections/default/events", *answers)
    ended = run("events", "import", lines_file(tmp_path / "a", *[{} for _ in range(1001)]), "--url", fake.url)
    assert ended.code == 1
    assert "from line 1001 on; 1000 were accepted before" in ended.err


def test_judgments_are_sent_with_the_text_of_their_query(fake: Fake, run: Run, tmp_path: Path) -> None:
    fake.on("POST", "/v1/collections/default/judgments", {"accepted": 1, "rejected": []})
    (tmp_path / "qrels").mkdir()
    lines_file(tmp_path / "queries.jsonl", {"_id": "q1", "text": "red shoe"})
    path = lines_file(tmp_path / "qrels" / "test.tsv", "query-id\tcorpus-id\tscore", "q1\td1\t3")
    assert run("judgments", "import", path, "--rater", "ann", "--url", fake.url).code == 0
    judgment = {"rater": "ann", "query": "red shoe", "document_id": "d1", "rating": 3}
    assert fake.sent("/v1/collections/default/judgments") == [{"judgments": [judgment]}]


COMPARISON = {"measure": "nDCG@10", "queries": 40, "a": 0.5, "b": 0.6, "difference": 0.1}
COMPARISON |= {"low": 0.02, "high": 0.2, "p_value": 0.01}
DECISION = {"promote": True, "checks": [{"name": "judgments_better", "passed": True, "reason": "it is better"}]}


def test_train_waits_for_the_run_and_shows_its_decision(fake: Fake, run: Run) -> None:
    runs = "/v1/collections/default/training-runs"
    ended_run = {
        "id": "r1",
        "status": "succeeded",
        "model_version": 4,
        "report": {"held_out": {"nDCG@10": COMPARISON}, "recipe": {"recipe": "gates", "skipped": ["rank", "full"]}},
        "decision": DECISION,
    }
    steps = {"id": "r1", "status": "processing", "steps": [{"phase": "choose"}], "progress": {"done": 1, "total": 9}}
    fake.on("POST", runs, (202, {"id": "r1", "status": "enqueued"}))
    fake.on("GET", f"{runs}/r1", steps, ended_run)
    asked = ("--seed", 5, "--promote", "never", "--budget", 300, "--click-reading", "debiased")
    ended = run("train", *asked, "--url", fake.url)
    assert ended.code == 0
    assert "0.6000" in ended.out
    assert "passed: it is better" in ended.out
    assert "recipe gates\nrecipes skipped because of the budget: rank; full\n" in ended.out
    sent = {"seed": 5, "promote": "never", "budget_seconds": 300, "click_reading": "debiased"}
    assert fake.sent(runs) == [sent]


@pytest.mark.parametrize("status", ["failed", "canceled"])
def test_an_unsuccessful_training_run_ends_with_1(fake: Fake, run: Run, status: str) -> None:
    fake.on("POST", "/v1/collections/default/training-runs", (202, {"id": "r1"}))
    fake.on("GET", "/v1/collections/default/training-runs/r1", {"status": status, "error": None})
    ended = run("train", "--url", fake.url)
    assert ended.code == 1
    assert status in ended.err


def test_ctrl_c_ends_with_130_and_without_a_traceback(fake: Fake) -> None:
    fake.on("POST", "/v1/collections/default/training-runs", (202, {"id": "r1"}))
    fake.on("GET", "/v1/collections/default/training-runs/r1", {"status": "processing"})
    command = [*PROGRAM, "train", "--url", fake.url]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert all(fake.arrived.acquire(timeout=60) for _ in range(6))  # then it loads nothing more, and waits
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in said


def test_a_closed_pipe_on_stdout_is_not_reported(fake: Fake) -> None:
    fake.on("POST", "/v1/collections/default/search", FOUND | {"hits": [HIT] * 5000})
    for more in ([], ["--json"]):
        command = [*PROGRAM, "search", "x", "--url", fake.url, *more]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.close()
            said = process.stderr.read()
        assert "Traceback" not in said
        assert "Broken" not in said


def test_doctor_checks_a_server(fake: Fake, run: Run) -> None:
    fake.on("GET", "/readyz", {"status": "ready"})
    fake.on("GET", "/v1/collections", {"collections": [{"name": "default", "counts": {"documents": 3}}]})
    fake.on("GET", "/metrics", b"# HELP x\nx 1\n")
    ended = run("doctor", "--url", fake.url, "--json")
    assert (ended.code, json.loads(ended.out)["ok"]) == (0, True)
    fake.on("GET", "/readyz", (503, problem("not_ready", "loading")))
    assert run("doctor", "--url", fake.url).code == 1
