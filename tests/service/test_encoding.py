"""The service encodes documents in bulk and queries at once, with the encoder of its settings."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import service.runtime.runtime
from index.encoding.encoder import Encoder
from index.encoding.hashing_encoder import HashingEncoder
from index.records import Floats
from service.app import create_app
from service.operations.health import diagnose
from service.settings import Settings
from tests.service.client import CollectionClient, opened, runtime_of


class RecordingEncoder(HashingEncoder):
    """Records the texts that it encodes as documents and as queries."""

    def __init__(self) -> None:
        super().__init__()
        self.documents: set[str] = set()
        self.queries: set[str] = set()

    def encode(self, texts: Sequence[str], encoded: Callable[[int], None] | None = None) -> Floats:
        self.documents |= set(texts)
        return super().encode(texts, encoded)

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        self.queries |= set(texts)
        return HashingEncoder().encode(texts)


@pytest.fixture
def recording(monkeypatch: pytest.MonkeyPatch) -> RecordingEncoder:
    encoder = RecordingEncoder()
    monkeypatch.setattr(service.runtime.runtime, "load_encoder", lambda *_: encoder)
    return encoder


def test_documents_are_encoded_as_documents_and_every_kind_of_query_as_a_query(
    recording: RecordingEncoder, tmp_path: Path
) -> None:
    with opened(tmp_path / "data") as client:
        wood = CollectionClient(client)
        wood.add({"id": "oak", "title": "Oak", "text": "a tree with acorns"})
        wood.search("tree with acorns")
        wood.act("oak", user_query="where acorns grow")
        wood.judge("acorns", "oak", 3)
        wood.ended_task(wood.post("evaluations", {"models": [0], "qrels": {"an acorn's tree": {"oak": 1}}}))
    assert recording.documents == {"Oak", "Oak\na tree with acorns"}
    assert recording.queries >= {"tree with acorns", "where acorns grow", "acorns", "an acorn's tree"}


def test_the_encoder_is_loaded_with_the_precision_of_the_settings_and_cached_in_the_data_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[Any] = []

    def load(*arguments: Any) -> Encoder:
        asked.append(arguments)
        return HashingEncoder()

    monkeypatch.setattr(service.runtime.runtime, "load_encoder", load)
    with opened(tmp_path / "data", encoder_precision="int8") as client:
        checks = {one["name"]: one["detail"] for one in diagnose(runtime_of(client))}
    assert asked == [("hashing", "int8", tmp_path / "data" / "encoders")]
    assert checks["encoder"].endswith("fp32 (hashing)")


def test_the_check_of_an_installation_encodes_a_document(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fails(*_: Any) -> Any:
        raise OSError("the model for documents is damaged")

    with opened(tmp_path / "data") as client:
        monkeypatch.setattr(runtime_of(client).encoder, "encode", fails)
        (check,) = [one for one in diagnose(runtime_of(client)) if one["name"] == "encoder"]
    assert not check["ok"]
    assert check["detail"].endswith("no document can be encoded: OSError: the model for documents is damaged")


def test_an_unknown_precision_is_refused() -> None:
    with pytest.raises(ValueError, match="encoder_precision"):
        create_app(Settings(encoder="hashing", encoder_precision="fp64"))  # type: ignore[arg-type]
