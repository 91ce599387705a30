"""HTTP routes of models and evaluations."""

from typing import Annotated, Any

from fastapi import Path, Query
from fastapi.responses import Response

from service.http.access import Asking
from service.http.answers import TASK_ACCEPTED, answers
from service.http.responses import accepted_task
from service.http.routers import new_router
from service.models import actions
from service.models.answers import Aliases, Model, ModelComparison, ModelList
from service.models.schemas import EvaluationIn, Promotion
from service.runtime.dependency import Running

router = new_router("/v1/collections/{collection}", "models")
Version = Annotated[int, Query(ge=0, le=2**31)]


@router.get("/models", responses=answers((200, ModelList, "The models")))
def list_models(runtime: Running, collection: str) -> dict[str, Any]:
    """List the models and the aliases."""
    return actions.list_models(runtime, runtime.collection(collection))


@router.get("/models/compare", responses=answers((200, ModelComparison, "Both models")))
def compare_models(runtime: Running, collection: str, a: Version, b: Version) -> dict[str, Any]:
    """Show two models side by side."""
    return actions.compare_models(runtime, runtime.collection(collection), a, b)


@router.get("/models/{version}", responses=answers((200, Model, "The model")))
def get_model(runtime: Running, collection: str, version: Annotated[int, Path(ge=0, le=2**31)]) -> dict[str, Any]:
    """Show a model: lineage, report, decision."""
    return actions.show_model(runtime, runtime.collection(collection), version)


@router.put("/models/aliases/champion", responses=answers((200, Aliases, "The aliases")))
def put_champion(runtime: Running, asking: Asking, collection: str, promotion: Promotion) -> dict[str, Any]:
    """Make a version the champion. Without force, a version that failed the gate gets 409 with the failed checks."""
    if promotion.force:
        asking.act = "force_promotion"
    return actions.set_champion(runtime, runtime.collection(collection), promotion)


@router.post("/models/aliases/champion/rollback", responses=answers((200, Aliases, "The aliases")))
def roll_back(runtime: Running, collection: str) -> dict[str, Any]:
    """Make the previous champion the champion again. The next search uses it."""
    return actions.roll_back(runtime, runtime.collection(collection))


@router.post("/evaluations", status_code=202, responses=TASK_ACCEPTED)
def post_evaluation(runtime: Running, collection: str, evaluation: EvaluationIn) -> Response:
    """Measure models on given or stored judgments, with paired tests. The task has the result."""
    # imported here because scipy and ir-measures take longer to import than the service takes to start
    from service.models.evaluations import start_evaluation

    task_id = start_evaluation(runtime, runtime.collection(collection), evaluation)
    return accepted_task(runtime.jobs.show(task_id))
