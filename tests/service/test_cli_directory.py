"""The command line on a real data directory, opened by the command or by a server process."""

import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest

from service.cli import main
from tests.service.client import DEADLINE_SECONDS, CollectionClient, opened

pytestmark = pytest.mark.usefixtures("forked_training")

ROOT = Path(__file__).parents[2]
ANIMALS = (
    "aardvark badger camel dingo echidna ferret gibbon hedgehog ibex jackal koala lemur marmot narwhal ocelot panda "
    "quokka rabbit salmon tapir urchin vole walrus xerus yak zebra alpaca bison cheetah dolphin"
).split()


@dataclass(frozen=True)
class Ended:
    """The exit code and the output of a command."""

    code: int | str | None
    out: str
    err: str

    @property
    def value(self) -> Any:
        """The JSON on stdout."""
        return json.loads(self.out)


class Run(Protocol):
    def __call__(self, *arguments: Any) -> Ended: ...


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Run]:
    """Run a command in this process on the default data directory of an empty folder, without weights."""
    for name in [name for name in os.environ if name.upper().startswith("SOFTSEEK_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SOFTSEEK_ENCODER", "hashing")
    monkeypatch.chdir(tmp_path)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def command(*arguments: Any) -> Ended:
        capsys.readouterr()
        with pytest.raises(SystemExit) as raised:
            main([str(argument) for argument in arguments])
        return Ended(raised.value.code, *capsys.readouterr())

    yield command
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    """A file with a document for each animal."""
    path = tmp_path / "animals.ndjson"
    lines = [{"id": name, "text": f"a {name} is an animal", "metadata": {"letter": name[0]}} for name in ANIMALS]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


@pytest.fixture
def qrels(tmp_path: Path) -> Path:
    """A file with a judgment for each animal, in the BEIR layout."""
    (tmp_path / "qrels").mkdir()
    lines = [json.dumps({"_id": f"q{at}", "text": f"what is a {name}"}) for at, name in enumerate(ANIMALS)]
    (tmp_path / "queries.jsonl").write_text("\n".join(lines))
    path = tmp_path / "qrels" / "train.tsv"
    graded = "".join(f"q{at}\t{name}\t2\n" for at, name in enumerate(ANIMALS))
    path.write_text(f"query-id\tcorpus-id\tscore\n{graded}")
    return path


def test_documents_are_found_by_a_later_command(run: Run, documents: Path) -> None:
    taken = run("ingest", documents, "--collection", "zoo", "--filterable", "letter", "--json")
    assert (taken.code, taken.value["succeeded"]) == (0, len(ANIMALS))
    found = run("search", "walrus", "--collection", "zoo", "--filter", 'letter = "w"', "--explain", "--json")
    assert found.value["hits"][0]["id"] == "walrus"
    shown = run("search", "walrus", "--collection", "zoo", "--explain")
    assert (shown.code, shown.out.split()[:2]) == (0, ["1", "walrus"])
    assert "documents with a word of the query: 1;" in run("search", "walrus", "--collection", "zoo", "--count").err
    assert f"; documents: {len(ANIMALS)};" in run("search", "*", "--collection", "zoo", "--count").err
    assert "documents" not in shown.err
    assert run("search", "walrus", "--collection", "zoo", "--filter", "size = 2").err.startswith("invalid_filter: ")


def test_invalid_documents_are_named_by_their_line(run: Run, documents: Path) -> None:
    with documents.open("a") as file:
        file.write('{"id": "no text"}\n')
    taken = run("ingest", documents)
    assert taken.code == 3
    assert f"line {len(ANIMALS) + 1} (no text): invalid_document" in taken.err


def test_feedback_trains_a_model_that_is_listed_and_measured(run: Run, documents: Path, qrels: Path) -> None:
    assert run("ingest", documents).code == 0
    few = run("train")
    assert (few.code, few.err.split(":")[0]) == (1, "not_enough_feedback")
    judged = run("judgments", "import", qrels, "--json")
    assert (judged.code, judged.value) == (0, {"accepted": len(ANIMALS), "rejected": []})
    trained = run("train", "--seed", 3)
    assert trained.code == 0
    assert "nDCG@10" in trained.out
    listed = run("models", "list", "--json").value
    assert [one["version"] for one in listed["models"]] == [0, 1]
    for command in (["list"], ["show", 1], ["show", 0], ["compare", 0, 1]):
        assert run("models", *command).code == 0
    forced = run("models", "promote", 1, "--force", "--reason", "to see it")
    assert (forced.code, forced.out) == (0, "champion: model 1\n")
    assert run("models", "rollback").out == "champion: model 0\n"
    measured = run("evaluate", "--models", "0,1", "--measures", "nDCG@10", "--qrels", qrels, "--json")
    assert measured.value["queries"] == len(ANIMALS)
    shown = run("evaluate", "--models", "0,1")
    assert (shown.code, "model 1" in shown.out) == (0, True)


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with a document and a judgment for each animal."""
    data = tmp_path_factory.mktemp("judged") / "data"
    with opened(data) as client:
        zoo = CollectionClient(client)
        zoo.add(*({"id": name, "text": f"a {name} is an animal"} for name in ANIMALS))
        judgments = [{"query": f"what is a {name}", "document_id": name, "rating": 2} for name in ANIMALS]
        zoo.post("judgments", {"judgments": judgments})
    return data


@contextmanager
def training(judged: Path, directory: Path, moment: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run `softseek train` on a copy in a separate process; yield when the staging folder of the run has `moment`."""
    shutil.copytree(judged, directory / "data")
    command = [sys.executable, "-c", "from service.cli import main; main()", "train", "--click-reading", "naive"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, cwd=directory, env=environment, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not any((directory / "data" / "staging").glob(f"*/{moment}")):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        yield process


@pytest.mark.sqlite
def test_the_next_train_command_resumes_the_run_of_a_killed_command(run: Run, judged: Path, tmp_path: Path) -> None:
    with training(judged, tmp_path, "stderr.log") as process:
        process.kill()
    trained = run("train", "--seed", 5)
    assert trained.code == 0
    assert "resuming the interrupted run" in trained.err
    assert "click interpretation naive)" in trained.err
    (_, made) = run("models", "list", "--json").value["models"]
    assert made["lineage"]["seed"] == 0


@pytest.mark.sqlite
def test_ctrl_c_cancels_the_run_of_a_command_without_a_server(run: Run, judged: Path, tmp_path: Path) -> None:
    with training(judged, tmp_path, "lock") as process:
        process.send_signal(signal.SIGINT)
        assert process.wait(DEADLINE_SECONDS) == 130
    with closing(sqlite3.connect(tmp_path / "data" / "softseek.db")) as connection:
        assert connection.execute("SELECT status FROM training_runs").fetchall() == [("canceled",)]


def test_each_event_is_accepted_or_rejected_separately(run: Run, documents: Path, tmp_path: Path) -> None:
    assert run("ingest", documents).code == 0
    click = {
        "action_name": "click",
        "user_query": "striped",
        "timestamp": "2026-01-01T00:00:00Z",
        "event_attributes": {"object": {"object_id": "zebra"}},
    }
    path = tmp_path / "events.json"
    path.write_text(json.dumps([click, {"action_name": "click"}]))
    taken = run("events", "import", path, "--json")
    assert (taken.code, taken.value["accepted"], taken.value["rejected"][0]["item"]) == (3, 1, 2)
    hits = run("search", "striped", "--explain", "--json").value["hits"]
    assert [hit["id"] for hit in hits if hit["explain"]["parts"]["memory"] > 0] == ["zebra"]


def test_doctor_passes_on_a_new_directory(run: Run) -> None:
    run("collections", "set", "default")
    looked = run("doctor", "--json")
    assert looked.code == 0
    assert looked.value["ok"]
    assert run("doctor").code == 0


@pytest.mark.parametrize(
    "command",
    [
        "search x", "recommend x", "collections list", "collections show default", "collections delete shop",
        "aliases list", "aliases set shop default", "aliases swap a b", "aliases delete a", "documents get x",
        "documents list", "documents delete x", "judge default", "queries", "events import FILE",
        "judgments import FILE",
        "rules set r --exact a --hide x", "rules list", "synonyms set s --words a,b", "synonyms list", "train",
        "training-runs", "models list", "models rollback", "evaluate", "keys list", "keys rotate x", "keys delete x",
        "audit", "doctor", "doctor --repair", "snapshot create", "snapshot list", "snapshot delete x",
        "export backup.ndjson", "move --to postgresql+psycopg://h/d", "reencode default --encoder hashing",
        "reindex default --language german",
        "erase --client x",
    ],
)  # fmt: skip
def test_a_mistyped_directory_is_refused_and_not_made(run: Run, tmp_path: Path, command: str) -> None:
    judged = tmp_path / "judged.jsonl"
    judged.write_text('{"query": "a", "document_id": "b", "rating": 2}\n')
    arguments = [judged if one == "FILE" else one for one in command.split()]
    ended = run(*arguments, "--data", tmp_path / "typo")
    assert (ended.code, "has no Softseek data" in ended.out + ended.err) == (1, True), ended.err
    assert [path.name for path in tmp_path.iterdir()] == ["judged.jsonl"]


def test_a_folder_of_other_files_has_no_data(run: Run, tmp_path: Path) -> None:
    (tmp_path / "data" / "indexes").mkdir(parents=True)
    (tmp_path / "data" / "softseek.db").touch()
    assert "data has no Softseek data" in run("collections", "list").err
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == ["indexes", "softseek.db"]


def test_the_snapshots_of_a_directory_that_lost_everything_else_are_listed(run: Run, documents: Path) -> None:
    assert run("ingest", documents).code == 0
    assert run("snapshot", "create").code == 0
    (made,) = Path("data/snapshots").glob("*.tar")
    for path in Path("data").iterdir():
        if path.name != "snapshots":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    (listed,) = run("snapshot", "list", "--json").value["snapshots"]
    assert listed["id"] in made.name


def test_commands_that_make_content_make_the_directory(run: Run, documents: Path) -> None:
    made = (["ingest", documents], ["collections", "set", "zoo"], ["keys", "create", "--scopes", "admin"])
    for number, command in enumerate(made):
        assert run(*command, "--data", f"new-{number}").code == 0
    assert run("export", "all.ndjson", "--data", "new-0").code == 0
    assert run("import", "all.ndjson", "--data", "imported").code == 0
    assert run("search", "walrus", "--data", "imported", "--json").value["hits"][0]["id"] == "walrus"


def test_a_directory_that_cannot_be_opened_is_an_error_without_a_traceback(run: Run, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "softseek.db").write_bytes(b"this file is not a database" * 100)
    for command in (["search", "x"], ["doctor"]):
        ended = run(*command)
        assert ended.code == 1
        assert "cannot be opened" in ended.out + ended.err


@pytest.fixture
def served(run: Run, tmp_path: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A server of ./data in a separate process."""
    command = [sys.executable, "-c", "from service.cli import main; main()", "serve", "--port", "0", "--json"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=environment) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["url"], process
        finally:
            process.terminate()
            process.wait(60)


def rights_of_files(folder: Path) -> list[int]:
    """Return the modes of the files below a folder, of which a server may delete some at any moment."""
    rights = []
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                rights.append(os.stat(Path(parent, name)).st_mode)
    return rights


def test_a_command_uses_the_server_of_its_data_directory(
    run: Run, served: tuple[str, subprocess.Popen[str]], documents: Path, tmp_path: Path
) -> None:
    url, process = served
    assert run("ingest", documents, "--url", url).code == 0
    rights = rights_of_files(tmp_path / "data")
    assert rights
    assert all(one & 0o077 == 0 for one in rights)
    assert run("search", "yak", "--url", url, "--json").value["hits"][0]["id"] == "yak"
    assert run("doctor", "--url", url).code == 0
    assert run("search", "yak", "--json").value["hits"][0]["id"] == "yak"
    key = run("keys", "create", "--scopes", "admin").out.strip()
    refused = run("search", "yak")
    assert (refused.code, refused.out) == (1, "")
    assert "SOFTSEEK_KEY" in refused.err
    assert run("search", "yak", "--key", key, "--json").value["hits"][0]["id"] == "yak"
    owned = run("doctor")
    assert (owned.code, owned.out) == (73, "")
    assert f"process {process.pid}" in owned.err
    again = run("serve", "--port", url.rpartition(":")[2])
    assert (again.code, again.out) == (73, "")
    assert f"process {process.pid}" in again.err
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    assert run("search", "yak", "--json").value["hits"][0]["id"] == "yak"


def test_a_port_in_use_is_an_error(run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ended = run("serve", "--port", taken.getsockname()[1])
    assert ended.code == 1
    assert "cannot listen on 127.0.0.1" in ended.err
