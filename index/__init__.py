"""The Softseek library: text, arrays, tensors and files. It knows no HTTP, no SQL and no environment.

The names in `__all__` are its public interface; docs/library.md shows them in use. They are imported at their first
use, so that a process that only searches imports neither torch nor scipy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from index.collection import Collection, Hit
    from index.encoding.encoder import load_encoder
    from index.errors import NotEnoughFeedback, SearchError
    from index.evaluation.measures import measure_run
    from index.learning.config import FitConfig
    from index.ranking.attention import AttentionHead, HeadConfig
    from index.records import Document

__all__ = [
    "AttentionHead",
    "Collection",
    "Document",
    "FitConfig",
    "HeadConfig",
    "Hit",
    "NotEnoughFeedback",
    "SearchError",
    "load_encoder",
    "measure_run",
]

_MODULES = {
    "AttentionHead": "ranking.attention",
    "Collection": "collection",
    "Document": "records",
    "FitConfig": "learning.config",
    "HeadConfig": "ranking.attention",
    "Hit": "collection",
    "NotEnoughFeedback": "errors",
    "SearchError": "errors",
    "load_encoder": "encoding.encoder",
    "measure_run": "evaluation.measures",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'index' has no attribute {name!r}")
    return getattr(import_module(f"index.{_MODULES[name]}"), name)
