"""Makes the two matrices of an answer: words of the query by keys, and parts of the logit by documents."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from index.ranking import heatmaps
from index.ranking.retrieval import encoded_text, read_query
from index.records import Floats
from service.runtime.search_runtime import SearchRuntime
from service.search.hits import Searched
from service.search.schemas import SearchIn

WordsOfKeys = Callable[[Sequence[int], Floats, int], heatmaps.WordsByKeys]
"""Ranks, the vectors (Q, D) of the query without each word, and the number of keys of a hit -> words by keys."""
MATRIX = "matrix"
"""The value of `explain` that asks for the matrices."""


def matrix(
    runtime: SearchRuntime,
    request: SearchIn,
    searched: Searched,
    hits: Sequence[dict[str, Any]],
    words_by_keys: WordsOfKeys | None = None,
) -> dict[str, Any]:
    """Return the matrices of the first hits of a page. A search that compares no keys has no matrix of words by keys.

    words_by_keys: finds the keys of the hits; None: in the generation.
    """
    shown = {int(searched.page[hit["position"] - request.offset - 1]): hit for hit in hits[: heatmaps.MAX_HITS]}
    found = {"parts_by_documents": _parts(searched, shown)}
    if not searched.query.by_keys or searched.everything:
        return found
    return {
        "words_by_keys": _words(runtime, searched, shown, words_by_keys or partial(_in_generation, searched))
    } | found


def _parts(searched: Searched, shown: dict[int, dict[str, Any]]) -> dict[str, Any]:
    names, cells = heatmaps.parts_by_documents(searched.ranking, list(shown))
    documents = [{"id": hit["id"], "logit": hit["logit"]} for hit in shown.values()]
    return {"parts": list(names), "documents": documents, "cells": cells.tolist()}


def _words(
    runtime: SearchRuntime, searched: Searched, shown: dict[int, dict[str, Any]], words_by_keys: WordsOfKeys
) -> dict[str, Any]:
    """Return the matrix of words by keys. The words stand in the text that was encoded."""
    text = encoded_text(searched.query.mode, read_query(searched.generation, searched.query))
    every = heatmaps.words_of_query(text)
    words = every[: heatmaps.MAX_WORDS]
    without = _vectors(runtime, heatmaps.without_each(text, words))
    found = words_by_keys(list(shown), without, heatmaps.keys_of_each(len(shown)))
    return {
        "text": text,
        "words": [{"word": text[one.start : one.end], "start": one.start, "end": one.end} for one in words],
        "keys": [
            {"id": shown[rank]["id"], "kind": key.kind.label, "start": key.start, "end": key.end, "share": key.share}
            | {"cosine": cosine}
            for (rank, key), cosine in zip(found.keys, found.cosines.tolist(), strict=True)
        ],
        "cells": found.cells.tolist(),
        "words_left_out": len(every) - len(words),
    }


def _in_generation(searched: Searched, ranks: Sequence[int], without: Floats, each: int) -> heatmaps.WordsByKeys:
    return heatmaps.words_by_keys(
        searched.generation, searched.serving.head, searched.query, searched.ranking, ranks, without, each
    )


def _vectors(runtime: SearchRuntime, texts: Sequence[str]) -> Floats:
    """Return the vectors (Q, D) of texts, in one call of the encoder; zeros for an empty text."""
    vectors = np.zeros((len(texts), runtime.encoder.dim), np.float32)
    filled = [at for at, text in enumerate(texts) if text]
    if filled:
        vectors[filled] = runtime.encoder.encode_queries([texts[at] for at in filled])
    return vectors
