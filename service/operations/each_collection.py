"""Does the same work for every collection. The failure of one collection does not keep the others from their turn."""

from collections.abc import Callable

from service.runtime.collection import CollectionState
from service.runtime.runtime import Runtime


def for_each_collection(runtime: Runtime, work: Callable[[CollectionState], None]) -> None:
    """Call work(state) for every collection. Then raise the error of a call, or an ExceptionGroup of several."""
    errors: list[Exception] = []
    for state in list(runtime.collections.values()):
        try:
            work(state)
        except Exception as error:
            errors.append(error)
    if len(errors) > 1:
        raise ExceptionGroup("; ".join(f"{type(error).__name__}: {error}" for error in errors), errors)
    if errors:
        raise errors[0]
