"""A new searcher starts from the file that another one has published, and not from a damaged or a foreign one."""

import math
import os
import re
import threading
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from structlog.testing import capture_logs

from benchmarks.postgres import PostgresServer
from service.runtime import loader
from service.runtime.first_start import OtherDatabase
from service.searchers import published
from service.searchers.document_part import DocumentPart, keep_part
from service.searchers.published import Publisher, file_of, start_from
from service.searchers.replica import Replica
from service.searchers.searcher_app import create_searcher_app
from service.searchers.searcher_runtime import SearcherRuntime
from service.settings import Settings
from service.snapshots.archive import check_bytes
from service.storage.database import DatabaseUnreachable
from tests.service.client import CollectionClient, good, opened
from tests.service.test_checksums import filled
from tests.service.test_searchers import answers, caught_up, searcher_of, until


@pytest.fixture
def address(postgres_server: PostgresServer, request: pytest.FixtureRequest) -> str:
    return postgres_server.database(re.sub(r"\W+", "_", request.node.name)[:50])


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests publish themselves, and no copy of a searcher on a busy machine counts as old."""
    monkeypatch.setattr("service.searchers.searcher_runtime.HOUSEKEEPING_SECONDS", 3600.0)
    monkeypatch.setattr("service.searchers.searcher_runtime.OLD_SECONDS", 3600.0)


@pytest.fixture
def copied_all(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The searchers that have copied all rows."""
    found: list[Path] = []
    copy_all = Replica.copy_all

    def noted(replica: Replica, *arguments: Any) -> None:
        found.append(Path(str(replica.database.path)))
        copy_all(replica, *arguments)

    monkeypatch.setattr(Replica, "copy_all", noted)
    return found


def searcher(data: Path, address: str, file: Path) -> TestClient:
    settings = Settings(
        encoder="hashing", data=data, log_level="warning", role="searcher", database=address, generation_file=file
    )
    return TestClient(create_searcher_app(settings), raise_server_exceptions=False)


def publish(client: TestClient) -> None:
    """Have a searcher publish its file, as its housekeeping does."""
    runtime = searcher_of(client)
    assert runtime.publisher is not None
    assert runtime.publisher.is_due
    runtime.publisher.publish(list(runtime.collections.values()))
    runtime.publisher.close(waits=True)
    assert not runtime.publisher.is_due


def test_a_new_searcher_starts_from_the_file_and_follows_from_there(
    address: str, tmp_path: Path, copied_all: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "shared" / "generation.tar"
    with opened(tmp_path / "writer", database=address) as writer:
        wood = filled(writer)
        with searcher(tmp_path / "one", address, file) as one:
            publish(one)
        assert len(copied_all) == 1
        wood.add({"id": "late", "text": "an old late elm", "metadata": {"n": 2}})
        wood.judge("elm", "late", 4)
        client = searcher(tmp_path / "two", address, file)
        with capture_logs() as log, client as two:
            caught_up(writer, two)
            assert answers(two) == answers(writer)
        assert len(copied_all) == 1, "the second searcher copied the changes alone"
        assert "index_rebuilt" not in [one["event"] for one in log]
        assert sorted(path.name for path in (tmp_path / "two").iterdir() if path.is_dir()) == ["indexes", "spool"]
        assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("damage", ["a byte", "the end", "another file"])
def test_a_damaged_file_is_not_used(address: str, tmp_path: Path, copied_all: list[Path], damage: str) -> None:
    file = tmp_path / "generation.tar"
    with opened(tmp_path / "writer", database=address) as writer:
        filled(writer)
        with searcher(tmp_path / "one", address, file) as one:
            publish(one)
        body = bytearray(file.read_bytes())
        body[len(body) // 2] ^= 1
        damaged = {"a byte": bytes(body), "the end": file.read_bytes()[:-9], "another file": b"no tar"}
        file.write_bytes(damaged[damage])
        client = searcher(tmp_path / "two", address, file)
        with capture_logs() as log, client as two:
            caught_up(writer, two)
            assert answers(two) == answers(writer)
        assert "published_file_not_used" in [one["event"] for one in log]
        assert len(copied_all) == 2


def test_the_file_of_another_database_gives_none_of_its_documents(
    postgres_server: PostgresServer, address: str, tmp_path: Path
) -> None:
    file, other = tmp_path / "generation.tar", postgres_server.database("other_of_published")
    with opened(tmp_path / "foreign", database=other) as foreign:
        CollectionClient(foreign).add({"id": "foreign", "text": "an old foreign elm"})
        with searcher(tmp_path / "one", other, file) as one:
            publish(one)
    with opened(tmp_path / "writer", database=address) as writer:
        filled(writer)
        with searcher(tmp_path / "two", address, file) as two:
            caught_up(writer, two)
            assert answers(two) == answers(writer)
            assert CollectionClient(two).search("foreign", log=False)["hits"] == []


def test_a_searcher_with_a_copy_keeps_it(address: str, tmp_path: Path, copied_all: list[Path]) -> None:
    file = tmp_path / "generation.tar"
    with opened(tmp_path / "writer", database=address) as writer:
        filled(writer)
        with searcher(tmp_path / "one", address, file) as one:
            publish(one)
        file.write_bytes(b"no tar")
        client = searcher(tmp_path / "one", address, file)
        with capture_logs() as log, client as one:
            assert answers(one) == answers(writer)
        assert "published_file_not_used" not in [line["event"] for line in log]


def test_a_file_that_cannot_be_written_stops_no_searcher(address: str, tmp_path: Path) -> None:
    (tmp_path / "occupied").write_text("a file, where a folder is wanted")
    with opened(tmp_path / "writer", database=address) as writer:
        filled(writer)
        with searcher(tmp_path / "one", address, tmp_path / "occupied" / "generation.tar") as one:
            runtime = searcher_of(one)
            assert runtime.publisher is not None
            with capture_logs() as log:
                runtime.publisher.publish(list(runtime.collections.values()))
                runtime.publisher.close(waits=True)
            assert "not_published" in [line["event"] for line in log]
            assert answers(one) == answers(writer)
            assert not (tmp_path / "one" / published.WORKING).exists()


def test_a_searcher_follows_on_after_an_error_of_publishing(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path / "writer", database=address) as writer:
        wood = filled(writer)
        with searcher(tmp_path / "one", address, tmp_path / "g.tar") as one:
            runtime, tried = searcher_of(one), []
            monkeypatch.setattr(Publisher, "publish", lambda *_: tried.append(1) or 1 / 0)
            runtime._kept_house_at = -math.inf
            until(lambda: tried)
            wood.add({"id": "late", "text": "a late elm"})
            caught_up(writer, one)
            assert runtime.is_following


def test_a_failed_file_is_not_tried_again_at_once(address: str, tmp_path: Path) -> None:
    with opened(tmp_path / "writer", database=address):
        (tmp_path / "occupied").write_text("a file, where a folder is wanted")
        with searcher(tmp_path / "one", address, tmp_path / "occupied" / "g.tar") as one:
            publisher = searcher_of(one).publisher
            assert publisher is not None
            assert publisher.is_due
            publisher.publish([])
            assert not publisher.is_due


def test_one_searcher_writes_the_file_at_a_time_and_a_left_draft_is_taken_over(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, draft = tmp_path / "g.tar", tmp_path / "g.tar.draft"
    with opened(tmp_path / "writer", database=address) as writer:
        filled(writer)
        with searcher(tmp_path / "one", address, file) as one:
            publisher = searcher_of(one).publisher
            assert publisher is not None
            draft.write_bytes(b"of another searcher")
            assert not publisher.is_due
            os.utime(draft, (0, 0))
            assert publisher.is_due
            publisher.publish(list(searcher_of(one).collections.values()))
            publisher.close(waits=True)
            assert not draft.exists()
            check_bytes(file)


def test_a_file_that_another_searcher_has_taken_over_is_not_finished(address: str, tmp_path: Path) -> None:
    file, draft = tmp_path / "g.tar", tmp_path / "g.tar.draft"
    with opened(tmp_path / "writer", database=address), searcher(tmp_path / "one", address, file) as one:
        publisher = searcher_of(one).publisher
        assert publisher is not None
        descriptor, folder = publisher._begun_draft(), tmp_path / "copies"
        folder.mkdir()
        draft.unlink()
        draft.write_bytes(b"of another searcher")
        publisher._write(descriptor, folder)
        assert not file.exists()
        assert draft.read_bytes() == b"of another searcher"


def test_a_searcher_that_started_from_a_file_answers_after_it_has_seen_the_database(
    address: str, tmp_path: Path
) -> None:
    file = tmp_path / "g.tar"
    with opened(tmp_path / "writer", database=address) as writer:
        filled(writer)
        with searcher(tmp_path / "one", address, file) as one:
            publish(one)
    unreachable = "postgresql+psycopg://softseek@127.0.0.1:1/softseek"
    for _ in range(2):  # also the second time, when the directory has the copy
        with pytest.raises(DatabaseUnreachable), searcher(tmp_path / "two", unreachable, file):
            pass
    with searcher(tmp_path / "one", unreachable, file) as one:
        assert CollectionClient(one, "wood").search("elm", log=False)["hits"], "its copy has followed the database"


def test_the_directory_of_a_service_gets_no_file(address: str, tmp_path: Path) -> None:
    file = tmp_path / "g.tar"
    with opened(tmp_path / "writer", database=address) as writer:
        filled(writer)
        with searcher(tmp_path / "one", address, file) as one:
            publish(one)
    before = sorted(path.name for path in (tmp_path / "writer").iterdir())
    with pytest.raises(OtherDatabase), searcher(tmp_path / "writer", address, file):
        pass
    assert sorted(path.name for path in (tmp_path / "writer").iterdir()) == before
    with opened(tmp_path / "writer", database=address) as writer:
        assert CollectionClient(writer, "wood").search("elm")["hits"]


def test_an_erasure_deletes_the_file(address: str, tmp_path: Path) -> None:
    file = tmp_path / "g.tar"
    with opened(tmp_path / "writer", database=address) as writer:
        wood = filled(writer)
        wood.search("elm", client_id="anna")
        with searcher(tmp_path / "one", address, file) as one:
            publish(one)
            wood.ended_task(good(writer.post("/v1/erasures", json={"client": "anna"})))
            caught_up(writer, one)
            until(lambda: not file.exists())


def test_each_part_of_the_documents_has_a_file_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "generation.tar"
    assert file_of(file, None) == file
    assert file_of(file, DocumentPart(1, 4)) == tmp_path / "generation-1-of-4.tar"
    assert file_of(file, DocumentPart(0, 0)) is None, "a coordinator has no documents"
    assert file_of(None, DocumentPart(1, 4)) is None


def test_a_partition_starts_from_the_file_of_its_part_alone(address: str, tmp_path: Path) -> None:
    def started(name: str, number: int) -> SearcherRuntime:
        data, part = tmp_path / name / str(number), DocumentPart(number, 2)
        settings = Settings(encoder="hashing", data=data, database=address, generation_file=tmp_path / "g.tar")
        return SearcherRuntime.open(settings, part=part)

    with opened(tmp_path / "writer", database=address) as writer:
        filled(writer)
        for number in range(2):
            part = started("first", number)
            assert part.publisher is not None
            part.publisher.publish(list(part.collections.values()))
            part.publisher.close(waits=True)
            part.close()
        counts = []
        for number in range(2):
            with capture_logs() as log:
                part = started("second", number)
            counts.append(part.collection("wood").generation.count)
            part.close()
            assert "index_rebuilt" not in [line["event"] for line in log]
        with capture_logs() as log:
            wrong = tmp_path / "wrong"
            wrong.mkdir()
            keep_part(wrong, DocumentPart(0, 2))
            start_from(tmp_path / "g-1-of-2.tar", wrong, DocumentPart(0, 2))
        assert not list(wrong.glob("softseek.db*"))
        assert sum(counts) == writer.get("/v1/collections/wood").json()["counts"]["documents"]
        assert loader.index_directory(wrong, 1).exists() is False


def test_an_erasure_during_the_writing_of_the_file_keeps_the_file_from_being_published(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, reached, erased = tmp_path / "g.tar", threading.Event(), threading.Event()
    add = published.ArchiveWriter.add

    def held(writer: Any, *arguments: Any) -> None:
        reached.set()
        erased.wait(60)
        add(writer, *arguments)

    monkeypatch.setattr(published.ArchiveWriter, "add", held)
    with opened(tmp_path / "writer", database=address) as writer:
        wood = filled(writer)
        wood.search("elm", client_id="anna")
        with searcher(tmp_path / "one", address, file) as one:
            runtime = searcher_of(one)
            caught_up(writer, one)
            assert runtime.publisher is not None
            runtime.publisher.publish(list(runtime.collections.values()))
            assert reached.wait(60)
            wood.ended_task(good(writer.post("/v1/erasures", json={"client": "anna"})))
            caught_up(writer, one)  # each step of an erasure forgets: the last one, too, before the next file is begun
            assert not file.with_name("g.tar.draft").exists()
            erased.set()
            runtime.publisher.close(waits=True)
            assert not list(tmp_path.glob("g.tar*"))
            assert not (tmp_path / "one" / published.WORKING).exists()
            publish(one)
            assert b"anna" not in file.read_bytes()


def test_an_erasure_deletes_the_draft_of_another_searcher(address: str, tmp_path: Path) -> None:
    draft = tmp_path / "g.tar.draft"
    client = searcher(tmp_path / "one", address, tmp_path / "g.tar")
    with opened(tmp_path / "writer", database=address) as writer, client as one:
        draft.write_bytes(b"of another searcher")
        CollectionClient(writer).ended_task(good(writer.post("/v1/erasures", json={"client": "anna"})))
        caught_up(writer, one)
        until(lambda: not draft.exists())
