"""Our converted encoder as a vector model of txtai: `method` in its configuration names this class."""

from typing import Any

import numpy as np
from txtai.vectors import Vectors

from benchmarks.servers.stores.same_encoder import SameEncoder


class TxtaiVectors(Vectors):  # type: ignore[misc]
    """Encodes documents and queries as Softseek does. txtai says which of both by `category`."""

    def loadmodel(self, path: str) -> SameEncoder:
        return SameEncoder(path)

    def encode(self, data: list[str], category: str | None = None) -> Any:
        if category == "query":
            return np.stack([self.model.query(text) for text in data])
        return self.model(data)
