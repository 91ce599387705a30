"""HTTP of models and evaluations."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from fastapi.responses import Response

from service.http.requests import StrictRoute
from service.models import actions
from service.models.schemas import EvaluationIn, Promotion
from service.runtime.dependency import Running

router = APIRouter(prefix="/v1/collections/{collection}", tags=["models"], route_class=StrictRoute)
Version = Annotated[int, Query(ge=0, le=2**31)]


@router.get("/models")
def list_models(runtime: Running, collection: str) -> dict[str, Any]:
    """List the versions and where the aliases point."""
    return actions.list_models(runtime, runtime.collection(collection))


@router.get("/models/compare")
def compare_models(runtime: Running, collection: str, a: Version, b: Version) -> dict[str, Any]:
    """Show two versions side by side."""
    return actions.compare_models(runtime, runtime.collection(collection), a, b)


@router.get("/models/{version}")
def get_model(runtime: Running, collection: str, version: Annotated[int, Path(ge=0, le=2**31)]) -> dict[str, Any]:
    """Show a version: lineage, report, decision."""
    return actions.show_model(runtime, runtime.collection(collection), version)


@router.put("/models/aliases/champion")
def put_champion(runtime: Running, collection: str, promotion: Promotion) -> dict[str, Any]:
    """Make a version live; 409 with the failing checks unless the gate was passed or force is given."""
    return actions.set_champion(runtime, runtime.collection(collection), promotion)


@router.post("/models/aliases/champion/rollback")
def roll_back(runtime: Running, collection: str) -> dict[str, Any]:
    """Make the former champion live again, at once."""
    return actions.roll_back(runtime, runtime.collection(collection))


@router.post("/evaluations", status_code=202)
def post_evaluation(runtime: Running, collection: str, evaluation: EvaluationIn) -> Response:
    """Measure models on given or stored judgments, with paired tests; the task holds the result."""
    from service.models.evaluations import (
        start_evaluation,  # here: statistics take longer to load than a service to start
    )

    return runtime.accepted(start_evaluation(runtime, runtime.collection(collection), evaluation))
