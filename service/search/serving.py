"""Gives the model that a search asks for: the champion, the challenger, or a version."""

from functools import lru_cache

from index.errors import EncoderMismatch
from index.ranking.attention import AttentionHead, HeadConfig
from service.http.problems import not_found
from service.runtime.model_files import load_version
from service.runtime.search_runtime import SearchRuntime
from service.runtime.served_collection import ServedCollection, Serving
from service.search import repository
from service.search.schemas import SearchIn


def serving_model(runtime: SearchRuntime, state: ServedCollection, request: SearchIn) -> Serving:
    """Return the model that ranks this search.

    Raises Problem 404 if the collection does not have it, and EncoderMismatch if it is for other vectors.
    """
    if request.model == "champion":
        return state.serving
    version: int | None = None if request.model == "challenger" else request.model
    with runtime.database.read() as connection:
        if version is None:
            version = repository.challenger_version(connection, state.id)
        fits = repository.fits_vectors(connection, state.id, version)
    if version is None or fits is None:
        raise not_found("model")
    if not fits:
        raise EncoderMismatch(f"model {version} was trained on vectors of another encoder")
    return model_of_version(runtime, state, version)


def model_of_version(runtime: SearchRuntime, state: ServedCollection, version: int) -> Serving:
    """Return a stored model."""
    return Serving(version, _head(state.id, state.initial, version, runtime))


@lru_cache(16)
def _head(collection_id: int, initial: HeadConfig, version: int, runtime: SearchRuntime) -> AttentionHead:
    with runtime.database.read() as connection:
        return load_version(connection, collection_id, initial, version)
