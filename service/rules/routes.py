"""HTTP routes of rules."""

from typing import Annotated, Any

from fastapi import Path
from fastapi.responses import JSONResponse, Response

from service.http.answers import answers
from service.http.routers import new_router
from service.rules import actions
from service.rules.answers import Rule, RuleList
from service.rules.schemas import ID_PATTERN, RuleIn
from service.runtime.dependency import Running

router = new_router("/v1/collections/{collection}/rules", "rules")
RuleId = Annotated[str, Path(pattern=ID_PATTERN)]


@router.get("", responses=answers((200, RuleList, "The rules")))
def list_rules(runtime: Running, collection: str) -> dict[str, Any]:
    """List the rules."""
    return actions.list_rules(runtime, runtime.collection(collection))


@router.put("/{rule_id}", responses=answers((200, Rule, "Replaced"), (201, Rule, "Created")))
def put_rule(runtime: Running, collection: str, rule_id: RuleId, rule: RuleIn) -> Response:
    """Store a rule. The next search follows it."""
    body, created = actions.put(runtime, runtime.collection(collection), rule_id, rule)
    return JSONResponse(body, 201 if created else 200)


@router.get("/{rule_id}", responses=answers((200, Rule, "The rule")))
def get_rule(runtime: Running, collection: str, rule_id: RuleId) -> dict[str, Any]:
    """Show a rule."""
    return actions.show(runtime, runtime.collection(collection), rule_id)


@router.delete("/{rule_id}", status_code=204)
def delete_rule(runtime: Running, collection: str, rule_id: RuleId) -> Response:
    """Delete a rule. The next search no longer follows it."""
    actions.remove(runtime, runtime.collection(collection), rule_id)
    return Response(status_code=204)
