"""Encodes many documents on a Ray cluster. A process of its own asks it, so that no fault of Ray ends the service.

The process reads from its stdin which documents, and writes to its stdout the vectors of one block after the other.
Each block is published when it comes, so a service that ends goes on with the documents that are still pending.
"""

import json
import os
import select
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

import orjson

from index.encoding.documents import EncodedDocument
from index.errors import SearchError
from index.records import KeyKind
from service.documents.packed_vectors import unpacked
from service.runtime.child_environment import child_environment
from service.settings import Settings

BULK = 1_000
"""Documents from which on a cluster is asked: its encoders take seconds to start."""
BLOCK = 128
FRAME = struct.Struct("<qq")
"""The head of a block: its number, and the bytes that follow."""
LOOK_SECONDS = 1.0
SILENT_SECONDS = 1_800.0
"""The longest time between two blocks: a cluster that gives all its cores to others is given up."""


class ClusterFailed(SearchError):
    """The cluster did not encode all documents."""


def encoded_on_cluster(
    settings: Settings,
    fingerprint: str,
    kinds: Collection[KeyKind],
    numbers: Sequence[int],
    table: str,
    check: Callable[[], None],
) -> Generator[tuple[list[int], dict[int, EncodedDocument]]]:
    """Yield each block of numbers with the vectors of its documents, in their order; those that are gone are left out.

    fingerprint: of the encoder of the settings; a machine with other weights fails. kinds: of the keys to make.
    numbers: of `pending_documents` or of `documents`, which `table` names. Calls `check` once a second, which may
    raise. Raises ClusterFailed.
    """
    blocks = [list(numbers[start : start + BLOCK]) for start in range(0, len(numbers), BLOCK)]
    process = _started(settings, fingerprint, kinds, table)
    assert process.stdin is not None
    assert process.stdout is not None
    body = orjson.dumps(blocks)
    telling = threading.Thread(target=_tell, args=(process.stdin, struct.pack("<q", len(body)) + body), daemon=True)
    telling.start()
    try:
        for block in blocks:
            read = _Reading(process.stdout, check)
            number, size = FRAME.unpack(read(FRAME.size))
            if number >= len(blocks) or blocks[number] is not block:
                raise ClusterFailed("the blocks came in another order")
            yield block, unpacked(read(size))
    except (OSError, ValueError) as error:
        raise ClusterFailed(str(error)) from error
    finally:
        process.kill()
        process.wait()
        telling.join()
        process.stdin.close()
        process.stdout.close()


def _started(settings: Settings, fingerprint: str, kinds: Collection[KeyKind], table: str) -> "subprocess.Popen[bytes]":
    specification = {
        "ray_address": settings.ray_address,
        "encoders": settings.ray_encoders,
        "encoder": str(Path(settings.encoder).resolve()) if Path(settings.encoder).is_dir() else settings.encoder,
        "precision": settings.encoder_precision,
        "data": str(settings.data.resolve()),
        "fingerprint": fingerprint,
        "kinds": [int(kind) for kind in kinds],
        "table": table,
    }
    return subprocess.Popen(
        [sys.executable, "-m", "service.cluster.encoding", json.dumps(specification)],
        stdin=subprocess.PIPE,  # the process ends with the service
        stdout=subprocess.PIPE,
        bufsize=0,
        env=child_environment(settings.database_address),
        start_new_session=True,
    )


def _tell(stdin: IO[bytes], body: bytes) -> None:
    """Write to a process, which may end before it has read everything: what reads its answer sees that."""
    with suppress(OSError):
        while body:
            body = body[os.write(stdin.fileno(), body[: 1 << 20]) :]


class _Reading:
    """Reads a number of bytes, and looks once a second whether to go on. Raises ClusterFailed."""

    def __init__(self, file: IO[bytes], check: Callable[[], None]) -> None:
        self._file, self._check = file, check

    def __call__(self, size: int) -> bytes:
        parts: list[bytes] = []
        end = time.monotonic() + SILENT_SECONDS
        while size:
            while not select.select([self._file], [], [], LOOK_SECONDS)[0]:
                self._check()
                if time.monotonic() > end:
                    raise ClusterFailed(f"no vectors came for {SILENT_SECONDS:.0f} seconds")
            part = os.read(self._file.fileno(), min(size, 1 << 20))
            if not part:
                raise ClusterFailed("the process that asks the cluster has ended; the log has its error")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)
