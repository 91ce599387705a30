"""HTTP of erasures."""

from typing import Any

from fastapi.responses import Response

from service.erasures import actions
from service.erasures.answers import ReceiptList
from service.erasures.schemas import ErasureIn
from service.http.answers import TASK_ACCEPTED, answers
from service.http.responses import accepted_task
from service.http.routers import new_router
from service.http.watermarks import watermark_headers
from service.runtime.dependency import Running

router = new_router("/v1/erasures", "privacy")


@router.post("", status_code=202, responses=TASK_ACCEPTED)
def post_erasure(runtime: Running, erasure: ErasureIn) -> Response:
    """Erase the searches, events and judgments of a client, user or session from all files. The result is a receipt."""
    response = accepted_task(runtime.jobs.show(actions.start(runtime, erasure)))
    response.headers.update(watermark_headers(runtime, erasure.collection))
    return response


@router.get("", responses=answers((200, ReceiptList, "The receipts")))
def list_erasures(runtime: Running) -> dict[str, Any]:
    """List the receipts of erasures."""
    return actions.receipts(runtime)
