"""Encodes documents on a Ray cluster: `python -m service.cluster.encoding SPECIFICATION`, for the service.

Ray Data spreads the blocks over encoders, adds encoders while blocks wait, and repeats a block whose machine was lost.
An encoder reads its documents from the database by itself; this process passes their vectors on.
"""

import json
import os
import struct
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from index.encoding.documents import encode_documents
from index.encoding.encoder import load_encoder
from index.errors import EncoderMismatch
from index.records import Document, KeyKind
from service.cluster.connection import NoCluster, connected
from service.documents.cluster_encoding import FRAME
from service.documents.packed_vectors import packed
from service.documents.repository import documents_of_rows, pending_documents, record_of
from service.settings import DATABASE_VARIABLE
from service.storage.database import ENCODERS
from service.storage.opening import open_reader
from service.training.pauses import ORPHANED

RESTARTS = 3
"""Times that an encoder is started again, and a block repeated: a text that ends its encoder would do so for ever."""


def main(arguments: Sequence[str]) -> int:
    """Encode the blocks that stdin names, and write their frames to stdout; return the exit code."""
    specification = {"database": os.environ.get(DATABASE_VARIABLE)} | json.loads(arguments[0])
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints is no frame
    (size,) = struct.unpack("<q", sys.stdin.buffer.read(8))
    blocks: list[list[int]] = orjson.loads(sys.stdin.buffer.read(size))
    threading.Thread(target=_end_with_service, daemon=True).start()
    try:
        with connected(specification["ray_address"]):
            for number, body in encoded(specification, blocks):
                output.write(FRAME.pack(number, len(body)) + body)
                output.flush()
    except NoCluster as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def encoded(specification: dict[str, Any], blocks: Sequence[Sequence[int]]) -> Iterator[tuple[int, bytes]]:
    """Yield the number of each block and its packed documents, in order. Raises NoCluster if no core is free."""
    import ray
    from ray.data import ActorPoolStrategy, DataContext, from_items

    if ray.available_resources().get("CPU", 0) < 1:
        raise NoCluster("the Ray cluster has no free core for an encoder")
    context = DataContext.get_current()
    context.enable_progress_bars = False
    context.execution_options.preserve_order = True
    items = [{"block": number, "numbers": block} for number, block in enumerate(blocks)]
    frames = from_items(items, override_num_blocks=len(items)).map_batches(
        BlockEncoder,
        fn_constructor_args=(specification,),
        batch_size=1,
        compute=ActorPoolStrategy(min_size=1, max_size=specification["encoders"]),
        num_cpus=1,
        max_restarts=RESTARTS,
        max_task_retries=RESTARTS,
    )
    for batch in frames.iter_batches(batch_size=1, prefetch_batches=1):
        yield int(batch["block"][0]), batch["frame"][0]


class BlockEncoder:
    """An encoder on a machine of the cluster."""

    def __init__(self, specification: dict[str, Any]) -> None:
        """Load the encoder. Raises EncoderMismatch if the weights of this machine are others than the service has."""
        data = Path(specification["data"])
        self._database = open_reader(data, specification["database"])
        self._encoder = load_encoder(specification["encoder"], specification["precision"], data / ENCODERS)
        if self._encoder.fingerprint != specification["fingerprint"]:
            raise EncoderMismatch("the collection was encoded with other weights than this machine has")
        self._kinds = frozenset(KeyKind(kind) for kind in specification["kinds"])
        self._is_pending = specification["table"] == "pending_documents"

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Encode a batch of one block."""
        (numbers,) = batch["numbers"]
        records = self._documents([int(one) for one in numbers])
        documents = encode_documents(self._encoder, list(records.values()), self._kinds)
        frame = packed(dict(zip(records, documents, strict=True)), self._encoder.dim)
        return {"block": batch["block"], "frame": np.array([frame], object)}

    def _documents(self, numbers: Sequence[int]) -> dict[int, Document]:
        """Return number -> document, of those that are still there."""
        with self._database.read() as connection:
            if self._is_pending:
                return {row.sequence: Document(id=row.id, **row.body) for row in pending_documents(connection, numbers)}
            found = documents_of_rows(connection, numbers)
        return {one.row: record_of(one) for one in found}


def _end_with_service() -> None:
    while sys.stdin.buffer.read(1):
        pass
    os._exit(ORPHANED)


if __name__ == "__main__":
    from service.cluster import encoding  # a class of `__main__` would travel to the cluster as code

    sys.exit(encoding.main(sys.argv[1:]))
