"""The data of all systems: the same documents in the same order, the same query texts, and the true neighbours."""

import hashlib
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.collections import TestSet
from index.records import Floats
from index.storage.files import sha256_file

SEED = 0
TIE = 1e-4
"""Scores this near to the last rank count as equal: equal texts are frequent, and stores compute in float32."""


@dataclass(frozen=True)
class Corpus:
    """Shuffled documents with id, title and text, so that the first documents are like the others; and queries."""

    documents: list[dict[str, Any]]
    queries: list[str]

    @property
    def texts(self) -> list[str]:
        """Title and text of each document, in the form for peers."""
        return [f"{one['title'] or ''}\n{one['text']}".strip() for one in self.documents]


def gather(sets: Sequence[TestSet], count: int) -> Corpus:
    """Return the first `count` documents of the sets, and all distinct query texts."""
    named = [one | {"id": f"{part.name}-{one['id']}"} for part in sets for one in part.documents][:count]
    queries = sorted({text for part in sets for text in part.queries.values()})
    random.Random(SEED).shuffle(named)
    random.Random(SEED).shuffle(queries)
    return Corpus(named, queries)


def endless(queries: Sequence[str]) -> Iterator[str]:
    """Yield the texts, then new texts of similar length: the first half of a text with the second half of another."""
    seen = set(queries)
    yield from queries
    words = [text.split() for text in queries]
    for step in range(1, len(queries)):
        for at, first in enumerate(words):
            second = words[(at + step) % len(words)]
            text = " ".join([*first[: (len(first) + 1) // 2], *second[len(second) // 2 :]])
            if text not in seen:
                seen.add(text)
                yield text


def taken(texts: Iterator[str], count: int) -> list[str]:
    """Return the next `count` texts; raises ValueError if fewer are left."""
    found = list(islice(texts, count))
    if len(found) < count:
        raise ValueError(f"{count} new query texts are needed, and {len(found)} are left")
    return found


def cached_vectors(texts: Sequence[str], model: Any, weights: Path, cache: Path) -> Floats:
    """Return unit vectors (len(texts), D) by SentenceTransformer.encode, cached in a file."""
    digest = hashlib.sha256(f"{sha256_file(weights)}\n".encode())
    for text in texts:
        digest.update(f"{len(text)}\n{text}".encode("utf-8", "replace"))
    path = cache / f"vectors-{digest.hexdigest()[:32]}.npy"
    if not path.is_file():
        made = model.encode(list(texts), normalize_embeddings=True, show_progress_bar=False)
        np.save(path, np.asarray(made, np.float32), allow_pickle=False)
    vectors: Floats = np.load(path, allow_pickle=False)
    return vectors


def recall(scores: Floats, found: Iterable[Sequence[int]], depth: int) -> float:
    """Return the mean share of the `depth` best documents that were found. scores (Q, N) are exact; found is per query.

    A document whose score is within TIE of the last of the best counts as found. A query counts at most 1.
    """
    shares = []
    for row, doc_indices in zip(scores, found, strict=True):
        least = np.partition(row, -depth)[-depth] - TIE
        shares.append(min(depth, int((row[list(doc_indices)[:depth]] >= least).sum())) / depth)
    return float(np.mean(shares))
