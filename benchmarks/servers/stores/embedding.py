"""Encodes texts for stores that do not: `SentenceTransformer.encode`, as their documentation does it."""

from typing import Any


class Embedding:
    """Returns unit vectors (n, DIM) of documents, and the unit vector (DIM,) of a query."""

    def __init__(self, model: str) -> None:
        from sentence_transformers import SentenceTransformer  # slow to import: only in workers

        self._model = SentenceTransformer(model, device="cpu", local_files_only=True)

    def __call__(self, texts: list[str]) -> Any:
        return self._model.encode(texts, normalize_embeddings=True, show_progress_bar=False)

    def query(self, text: str) -> Any:
        return self([text])[0]
