"""Messages, the journal and the numbers that processes share."""

import socket
import threading
import time
from pathlib import Path

import pytest

from index.storage.frames import frame
from service.http.metrics import LOST_IMPRESSIONS
from service.workers.cells import LENGTH_BITS, NO_POSITION, Cells
from service.workers.journal import Journal, JournalReader
from service.workers.messages import Inbox, Message, Outbox
from service.workers.supervisor import connections_of_each
from tests.service.client import DEADLINE_SECONDS


def until(holds: object) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not holds():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_messages_are_there_as_soon_as_they_were_sent() -> None:
    ours, theirs = socket.socketpair()
    taken: list[Message] = []
    inbox, outbox = Inbox(ours, taken.append), Outbox(theirs)
    for number in range(100):
        outbox.add({"number": number})
        inbox.drain()
        assert len(taken) == number + 1
    outbox.close()
    inbox.drain()
    assert inbox.has_ended
    assert [one["impression"]["number"] for one in taken] == list(range(100))


def test_a_message_that_was_cut_loses_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.workers.messages.SEND_SECONDS", 0.05)
    ours, theirs = socket.socketpair()
    outbox = Outbox(theirs)
    lost = LOST_IMPRESSIONS._value.get()
    outbox.add({"text": "x" * 4_000_000})  # no one reads: the socket takes a part of it
    assert LOST_IMPRESSIONS._value.get() == lost + 1
    theirs.settimeout(DEADLINE_SECONDS)  # the reading thread may begin late
    taken: list[Message] = []
    inbox = Inbox(ours, taken.append)
    reading = threading.Thread(target=until, args=[lambda: inbox.drain() or taken])
    reading.start()
    outbox.add({"text": "second"})
    reading.join()
    assert taken == [{"impression": {"text": "second"}}]
    inbox.close()


def test_a_message_that_cannot_be_handed_over_loses_no_other() -> None:
    ours, theirs = socket.socketpair()
    taken: list[Message] = []

    def take(message: Message) -> None:
        if message["impression"]["number"] == 1:
            raise OSError("a full disk")
        taken.append(message)

    inbox, outbox = Inbox(ours, take), Outbox(theirs)
    for number in range(3):
        outbox.add({"number": number})
    inbox.close()
    assert [one["impression"]["number"] for one in taken] == [0, 2]


def test_a_journal_is_read_up_to_the_position_that_was_told(tmp_path: Path) -> None:
    journal, reader = Journal(tmp_path, 1), JournalReader(tmp_path)
    journal.append(frame({"n": 1}))
    first = journal.position
    journal.append(frame({"n": 2}) + frame({"n": 3}))
    begins, found = reader.read(first)
    assert begins
    assert [head["n"] for head, _ in found] == [1]
    begins, found = reader.read(journal.position)
    assert not begins
    assert [head["n"] for head, _ in found] == [2, 3]
    after = Journal(tmp_path, 2)
    after.append(frame({"n": 4}))
    begins, found = reader.read(after.position)
    assert begins
    assert [head["n"] for head, _ in found] == [4]
    reader.restart()
    assert [head["n"] for head, _ in reader.read(after.position)[1]] == [4]
    after.remove()
    reader.restart()
    with pytest.raises(OSError, match="journal-2"):
        reader.read(after.position)


def test_a_journal_that_is_long_or_old_is_outdated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path, 1)
    assert not journal.is_outdated
    with monkeypatch.context() as patch:
        patch.setattr("service.workers.journal.MOST_SECONDS", -1.0)
        assert journal.is_outdated
    monkeypatch.setattr("service.workers.journal.MOST_BYTES", 10)
    journal.append(frame({"n": 1}))
    assert journal.is_outdated


def test_numbers_are_shared(tmp_path: Path) -> None:
    ours = Cells.create(tmp_path / "cells")
    theirs = Cells(tmp_path / "cells")
    assert theirs.position == NO_POSITION
    ours.position = 7 << LENGTH_BITS | 123
    assert theirs.position == 7 << LENGTH_BITS | 123
    theirs.count_closed(2)
    theirs.count_closed(2)
    assert (ours.closed(1), ours.closed(2)) == (0, 2)
    assert ours.busy == 0
    theirs.set_busy(2, True)
    theirs.set_busy(3, True)
    assert ours.busy == 2
    ours.reset(2)
    assert ours.closed(2) == 0
    assert ours.busy == 1


def test_connections_are_divided_among_the_processes() -> None:
    assert connections_of_each(1000, 3) == 250
    assert connections_of_each(10, 3) == 10
