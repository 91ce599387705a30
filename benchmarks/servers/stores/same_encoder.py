"""Our converted encoder for peers, so that a comparison is of engines and not of encoder runtimes.

A peer loads the encoder in its own processes, as Softseek does. A separate encoder server would add a loopback request
to every search of the peer. The environment of such a peer has our runtimes (`requirements/*-same-encoder.txt`) and
reads this checkout from PYTHONPATH. Importing `index.encoding.encoder` needs no other dependency of ours. The converted
files in the cache of the benchmarks are those that our own rows use.
"""

from typing import Any

from benchmarks.vectors import converted_encoder


class SameEncoder:
    """Returns unit vectors (n, DIM) of documents, and the unit vector (DIM,) of a query, by our encoder."""

    def __init__(self, model: str) -> None:
        self._encoder = converted_encoder(model)

    def __call__(self, texts: list[str]) -> Any:
        return self._encoder.encode(texts)

    def query(self, text: str) -> Any:
        return self._encoder.encode_queries([text])[0]
