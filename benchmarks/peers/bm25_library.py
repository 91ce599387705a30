"""BM25 by the library bm25s over its own index, with its tokenizer, English stop words and the Snowball stemmer."""

from typing import Any

import bm25s
import numpy as np
import Stemmer

from benchmarks.peers import DEPTH, Task
from benchmarks.peers.material import Material
from benchmarks.peers.ranking import best
from index.records import Ints

K1, B = 1.2, 0.75


class Bm25Library:
    """A peer without learning. Publishing it indexes the collection."""

    def __init__(self, material: Material, task: Task) -> None:
        self._material = material
        self._stemmer = Stemmer.Stemmer("english")
        self._index = bm25s.BM25(k1=K1, b=B)

    def learn(self) -> dict[str, Any]:
        return {"k1": K1, "b": B}

    def publish(self) -> None:
        documents = zip(self._material.titles, self._material.texts, strict=True)
        tokens = bm25s.tokenize([f"{a}\n{b}" for a, b in documents], stemmer=self._stemmer, show_progress=False)
        self._index.index(tokens, show_progress=False)

    def rank(self) -> dict[str, Ints]:
        texts = self._material.test.texts
        tokens = bm25s.tokenize(texts, stemmer=self._stemmer, show_progress=False, return_ids=False)
        nothing = np.zeros(len(self._material.ids), np.float32)
        scores = np.stack([self._index.get_scores(one) if one else nothing for one in tokens])
        return {"bm25s": best(scores, DEPTH)}
