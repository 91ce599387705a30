"""The systems by name: how each is started over a folder, loaded, searched, and how its answers are read.

Loading processes use all cores. Searching processes start over the loaded data, with the settings that gave the most
searches per second at 8 clients (docs/performance/serving.md).

A peer encodes with its own default runtime. The systems named `-same-encoder` encode with our converted encoder
(benchmarks/servers/stores/same_encoder.py), which separates the engine from the runtime of the encoder.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from benchmarks.servers.http1 import request
from index.records import Floats

ROOT = Path(__file__).parents[2]
WANTED = 10
"""Number of hits of a search."""
TXTAI_VECTORS = "benchmarks.servers.stores.txtai_vectors.TxtaiVectors"
"""The class that txtai loads for our encoder."""
WORKERS = 2
"""Processes of a peer that encode queries, one torch thread each. One per core gave the most searches per second."""


@dataclass(frozen=True)
class Place:
    """The data folder of a system, its port, the weights, and the Python of its environment."""

    folder: Path
    port: int
    model: Path
    python: Path
    searching: bool = True


class System(Protocol):
    """A system that the benchmark can start, load and search."""

    requirements: str | None
    """The name of its file under requirements/; None: it runs in our own environment."""
    takes_vectors: bool
    """Whether documents may be loaded with their vectors, which shortens the untimed part of a load."""
    not_data: tuple[str, ...]
    """Folders in its data folder that hold programs, logs or models, and no data."""
    ready: bytes
    """A request whose answer is 200 as soon as the system is up."""

    def start(self, place: Place) -> tuple[list[str], dict[str, str]]:
        """Return the command and its environment."""
        ...

    def posts(self, documents: Sequence[dict[str, Any]], vectors: Floats | None) -> list[bytes]:
        """Return the requests that load a batch of documents."""
        ...

    def ends(self) -> list[bytes]:
        """Return the requests after which all loaded documents are searchable."""
        ...

    def search(self, text: str) -> bytes:
        """Return the request of a search."""
        ...

    def hits(self, body: bytes) -> list[str]:
        """Return the ids in an answer; raises KeyError if a hit has no text."""
        ...


class Softseek:
    """`softseek serve` with default settings: keys of titles and passages, words, memory, attention."""

    requirements: str | None = None
    takes_vectors = False
    not_data: tuple[str, ...] = ("encoders",)
    ready = request("GET", "/readyz")

    def __init__(self, precision: str | None = None) -> None:
        self._precision = precision

    def start(self, place: Place) -> tuple[list[str], dict[str, str]]:
        command = [sys.executable, "-c", "from service.cli import main; main()", "serve", "--data", str(place.folder)]
        environment = {
            "PYTHONPATH": str(ROOT),
            "SOFTSEEK_RESULT_CACHE_MIB": "0",
        }  # each text is searched as if it were new
        if self._precision:
            environment["SOFTSEEK_ENCODER_PRECISION"] = self._precision
        return [*command, "--port", str(place.port)], environment

    def posts(self, documents: Sequence[dict[str, Any]], vectors: Floats | None) -> list[bytes]:
        return [request("POST", "/v1/collections/default/documents?wait=600", {"documents": list(documents)})]

    def ends(self) -> list[bytes]:
        return []

    def search(self, text: str) -> bytes:
        return request("POST", "/v1/collections/default/search", {"q": text, "limit": WANTED})

    def hits(self, body: bytes) -> list[str]:
        return [hit["id"] for hit in json.loads(body)["hits"] if hit["text"] is not None]


class StoreApp:
    """A store behind benchmarks/servers/app.py."""

    takes_vectors = True
    ready = request("GET", "/openapi.json")

    def __init__(self, store: str, workers: int, not_data: tuple[str, ...] = ()) -> None:
        self.requirements: str | None = store
        self.not_data = not_data
        self._store, self._workers = store, workers

    def start(self, place: Place) -> tuple[list[str], dict[str, str]]:
        specification = {
            "store": self._store,
            "folder": str(place.folder),
            "model": str(place.model),
            "port": place.port,
            "workers": self._workers if place.searching else 1,
            "torch_threads": 1 if place.searching else 0,
        }
        command = [str(place.python), "-m", "benchmarks.servers.app", json.dumps(specification)]
        return command, {"PYTHONPATH": str(ROOT), "ANONYMIZED_TELEMETRY": "False"}

    def posts(self, documents: Sequence[dict[str, Any]], vectors: Floats | None) -> list[bytes]:
        content: dict[str, Any] = {"documents": _texts(documents)}
        if vectors is not None:
            content["vectors"] = [vector.tolist() for vector in vectors]
        return [request("POST", "/documents", content)]

    def ends(self) -> list[bytes]:
        return [request("POST", "/settle")]

    def search(self, text: str) -> bytes:
        return request("POST", "/search", {"q": text, "limit": WANTED})

    def hits(self, body: bytes) -> list[str]:
        return [hit["id"] for hit in json.loads(body)["hits"] if hit["text"] is not None]


class Txtai:
    """txtai's own API server, in several processes for searches, because a single process searches under a lock.

    It has the exact index. The default index finds 84 of 100 neighbours and saves no time beside encoding.
    """

    takes_vectors = False
    not_data: tuple[str, ...] = ()
    ready = request("GET", "/openapi.json")

    def __init__(self, workers: int, same_encoder: bool = False) -> None:
        self.requirements: str | None = "txtai-same-encoder" if same_encoder else "txtai"
        self._workers, self._same_encoder = workers, same_encoder

    def start(self, place: Place) -> tuple[list[str], dict[str, str]]:
        embeddings = {
            "path": str(place.model),
            "content": True,
            "maxlength": 256,
            "faiss": {"components": "IDMap,Flat"},
        }
        environment = {"PYTHONPATH": ""}
        if self._same_encoder:
            embeddings["method"] = TXTAI_VECTORS
            environment["PYTHONPATH"] = str(ROOT)
        configuration = place.folder / "app.yml"  # JSON is YAML
        settings = {"path": str(place.folder / "index"), "writable": True, "embeddings": embeddings}
        configuration.write_text(json.dumps(settings), encoding="utf-8")
        command = [str(place.python), "-m", "uvicorn", "txtai.api:app", "--no-access-log", "--host", "127.0.0.1"]
        environment["CONFIG"] = str(configuration)
        if place.searching:
            command += ["--workers", str(self._workers)]
            environment["OMP_NUM_THREADS"] = "1"
        return [*command, "--port", str(place.port)], environment

    def posts(self, documents: Sequence[dict[str, Any]], vectors: Floats | None) -> list[bytes]:
        return [request("POST", "/add", _texts(documents))]

    def ends(self) -> list[bytes]:
        return [request("GET", "/upsert")]

    def search(self, text: str) -> bytes:
        return request("GET", f"/search?query={quote(text)}&limit={WANTED}")

    def hits(self, body: bytes) -> list[str]:
        return [hit["id"] for hit in json.loads(body) if hit["text"] is not None]


OURS = "ours"
INT8 = "ours, int8 documents"
SYSTEMS: dict[str, System] = {
    OURS: Softseek(),
    INT8: Softseek("int8"),
    "txtai": Txtai(WORKERS),
    "txtai-same-encoder": Txtai(WORKERS, same_encoder=True),
    "chroma": StoreApp("chroma", workers=WORKERS),
    "lancedb": StoreApp("lancedb", workers=WORKERS),
    "pgvector": StoreApp("pgvector", workers=WORKERS),
    "pgvector-same-encoder": StoreApp("pgvector-same-encoder", workers=WORKERS),
    "milvus": StoreApp("milvus", workers=WORKERS, not_data=("bin", "logs")),
}
INGEST_ONLY = {INT8}


def _texts(documents: Sequence[dict[str, Any]]) -> list[dict[str, str]]:
    return [{"id": one["id"], "text": f"{one['title'] or ''}\n{one['text']}".strip()} for one in documents]
