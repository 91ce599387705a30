"""Standard streams of a command that fail or are closed, and inputs without content."""

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
from sqlalchemy.exc import OperationalError

from service import cli
from tests.service.test_cli import FOUND, HIT, PROGRAM, ROOT, Fake, Run, fake, lines_file, run

__all__ = ["fake", "run"]

COMMANDS = {
    "search": ["search", "x"],
    "search --json": ["search", "x", "--json"],
    "export": ["export", "-"],
}


def ended(redirected: str, arguments: list[str], fake: Fake) -> tuple[int, str]:
    """Run a command in a shell that redirects its streams; return its exit code and its stderr."""
    fake.on("POST", "/v1/collections/default/search", FOUND | {"hits": [HIT]})
    fake.on("GET", "/v1/export", b'{"type":"end","lines":0}\n')
    shell = ["sh", "-c", f'"$@" {redirected}', "sh", *PROGRAM, *arguments, "--url", fake.url]
    done = subprocess.run(shell, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has /dev/full")
@pytest.mark.parametrize("name", COMMANDS)
def test_a_full_disk_behind_stdout_is_an_error_of_one_line(fake: Fake, name: str) -> None:
    code, said = ended(">/dev/full", COMMANDS[name], fake)
    assert (code, said.splitlines()[-1]) == (1, "system_error: [Errno 28] No space left on device")
    assert "Traceback" not in said


def test_a_full_or_failing_disk_under_the_data_directory_is_an_error_of_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    full = sqlite3.OperationalError("database or disk is full")

    def fail(_arguments: list[str]) -> int:
        raise OperationalError("INSERT", {}, full)

    monkeypatch.setattr(cli, "run", fail)
    monkeypatch.setattr(cli, "silence", lambda _stream: None)
    with pytest.raises(SystemExit) as ended:
        cli.main(["reencode", "shop"])
    assert (ended.value.code, capsys.readouterr().err) == (1, "system_error: [Errno 28] No space left on device\n")
    full = sqlite3.OperationalError("disk I/O error")
    full.sqlite_errorcode = sqlite3.SQLITE_IOERR_WRITE  # as for a file at the limit of its size
    with pytest.raises(SystemExit) as ended:
        cli.main(["reencode", "shop"])
    assert ended.value.code == 1
    assert capsys.readouterr().err == "system_error: the database cannot be read or written: disk I/O error\n"
    bare = sqlite3.DatabaseError("file is not a database")
    bare.sqlite_errorcode = sqlite3.SQLITE_NOTADB
    with monkeypatch.context() as patch:
        patch.setattr(cli, "run", Mock(side_effect=bare))
        with pytest.raises(SystemExit):
            cli.main(["move"])
    assert capsys.readouterr().err == "system_error: the database cannot be read or written: file is not a database\n"
    full = sqlite3.OperationalError("no such table: documents")
    full.sqlite_errorcode = sqlite3.SQLITE_ERROR
    with pytest.raises(OperationalError):
        cli.main(["reencode", "shop"])


@pytest.mark.parametrize("name", COMMANDS)
def test_a_closed_stdout_is_an_error_of_one_line(fake: Fake, name: str) -> None:
    code, said = ended(">&-", COMMANDS[name], fake)
    assert (code, said.splitlines()[-1]) == (1, "system_error: [Errno 9] Bad file descriptor")
    assert "Traceback" not in said


def test_a_closed_stdin_is_an_error_and_a_closed_stderr_is_not(fake: Fake) -> None:
    code, said = ended("<&-", ["ingest", "-"], fake)
    assert (code, said) == (1, "system_error: [Errno 9] Bad file descriptor\n")
    assert ended("2>&-", COMMANDS["search"], fake) == (0, "")


def test_an_empty_stdin_and_an_empty_file_without_a_suffix_have_no_documents(
    fake: Fake, run: Run, tmp_path: Path
) -> None:
    assert ended("</dev/null", ["ingest", "-"], fake) == (0, "")
    (tmp_path / "nothing").write_bytes(b"\xef\xbb\xbf\n")
    assert run("ingest", tmp_path / "nothing", "--url", fake.url).code == 0
    (tmp_path / "nothing.md").touch()
    assert run("ingest", tmp_path / "nothing.md", "--url", fake.url).code == 3
    assert fake.requests == []


@pytest.mark.parametrize("name", ["empty.jsonl", "empty.ndjson", "empty.tsv", "empty.json", "empty.qrels"])
@pytest.mark.parametrize("content", [b"", b"\n \n", b"\xef\xbb\xbf\n", b"query-id\tcorpus-id\tscore\n"])
def test_an_empty_file_of_judgments_needs_no_queries(
    fake: Fake, run: Run, tmp_path: Path, name: str, content: bytes
) -> None:
    (tmp_path / name).write_bytes(content)
    for more in ([], ["--format", "beir" if content.startswith(b"query-id") else "qrels"]):
        done = run("judgments", "import", tmp_path / name, "--url", fake.url, *more)
        assert (done.code, done.out) == (0, "0 of 0 judgments accepted\n")
    assert fake.requests == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has /dev/full")
@pytest.mark.parametrize(
    ("end", "code", "said"),
    [
        ("raise Failure(3, 'rejected')", 3, "rejected"),
        ("terminate(15, None)", 143, ""),
        ("raise RuntimeError('the defect')", 1, "RuntimeError: the defect"),
        ("raise KeyboardInterrupt", 130, ""),
    ],
)
def test_a_full_disk_behind_stdout_hides_no_error_of_the_command(end: str, code: int, said: str) -> None:
    program = f"""
from service.cli import Failure, app, main, terminate
@app.command()
def ending():
    print("a line that waits in the buffer")
    {end}
main(["ending"])
"""
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = ["sh", "-c", '"$@" >/dev/full', "sh", sys.executable, "-c", program]
    done = subprocess.run(command, cwd=ROOT, env=buffered, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, (done.stderr.splitlines() or [""])[-1]) == (code, said)


def test_ctrl_c_while_the_commands_are_imported_ends_without_a_traceback() -> None:
    program = """
import os, signal, sys
from service.start import main

class Interrupting:
    def find_spec(self, name, *_):
        if name == "service.cli.show":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
main()
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


def test_an_empty_file_needs_no_request(fake: Fake, run: Run, tmp_path: Path) -> None:
    ended = run("ingest", lines_file(tmp_path / "a.ndjson"), "--url", fake.url)
    assert (ended.code, fake.requests) == (0, [])
    assert "0 of 0" in ended.out
