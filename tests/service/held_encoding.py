"""Holds the encoding of documents, so that a test sees what is true while vectors are being made."""

import threading
from typing import Any

import pytest

from service.documents import indexing
from tests.service.client import DEADLINE_SECONDS


class HeldEncoding:
    """Blocks the encoding of documents until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._open = threading.Event()
        self._reached = threading.Event()
        self._words_published = threading.Event()
        encode, publish = indexing.encode_documents, indexing.publish_words

        def waiting(*arguments: Any) -> Any:
            self._reached.set()
            self._open.wait(DEADLINE_SECONDS)
            return encode(*arguments)

        def publishing(*arguments: Any) -> None:
            publish(*arguments)
            self._words_published.set()

        monkeypatch.setattr(indexing, "encode_documents", waiting)
        monkeypatch.setattr(indexing, "publish_words", publishing)

    def wait(self) -> None:
        """Wait until the first documents are to be encoded."""
        assert self._reached.wait(DEADLINE_SECONDS)

    def wait_for_words(self) -> None:
        """Wait until the words of a task are published, which happens while the first documents are encoded."""
        assert self._words_published.wait(DEADLINE_SECONDS)

    def open(self) -> None:
        """Let documents be encoded."""
        self._open.set()

    def hold(self) -> None:
        """Hold the documents that come from now on."""
        for event in (self._open, self._reached, self._words_published):
            event.clear()
