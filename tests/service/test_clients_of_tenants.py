"""Clients of two tenants with the same `client_id` are two clients: in training, judging and suggestions."""

import pytest

from service.feedback.grades import GRADES
from service.runtime.feedback_log import gather_feedback
from tests.service.client import event, good, runtime_of
from tests.service.test_tenants import QUERY, Wood, wood

__all__ = ["wood"]
SHARED = {"id": "shared", "text": "which tree is tall", "metadata": {"tenant": ["a", "b"]}}
BOTH = GRADES["purchase"] + GRADES["thumbs_down"]
"""The gain of a document that a client bought and another client dislikes."""


def gains(wood: Wood) -> list[float]:
    """Return the gains of all documents in the feedback of a training run."""
    with runtime_of(wood.shop.client).database.read() as connection:
        return [gain for one in gather_feedback(connection, wood.shop.id) for gain in one.gains.values()]


def test_a_dislike_of_a_tenant_does_not_cancel_the_purchase_of_another(wood: Wood) -> None:
    good(wood.keys.act("PUT", f"{wood.shop.path}/documents/shared", SHARED))
    for tenant, action in (("a", "purchase"), ("b", "thumbs_down")):
        wood.post(tenant, "events", event("shared", action, client_id="7", user_query=QUERY))
    assert gains(wood) == [BOTH]


@pytest.mark.parametrize(("client", "left"), [("7", []), (None, [BOTH])])
def test_a_dislike_cancels_the_purchase_of_the_same_client_of_a_tenant(
    wood: Wood, client: str | None, left: list[float]
) -> None:
    for action in ("purchase", "thumbs_down"):
        wood.post("a", "events", event("a5", action, client_id=client, user_query=QUERY))
    assert gains(wood) == left, "events without a client are of different persons"


def test_the_judging_list_counts_the_clients_of_each_tenant(wood: Wood) -> None:
    for tenant in ("a", "b", "owner"):
        wood.click(tenant, "b5" if tenant == "b" else "a5", "7", "7")
    (query,) = good(wood.keys.act("GET", f"{wood.shop.path}/judging"))["queries"]
    assert (query["searches"], query["clients"]) == (6, 3)
    total = good(wood.keys.act("GET", f"{wood.shop.path}/queries"))["total"]
    assert (total["searches"], total["clients"], total["clicked"]) == (6, 3, 6)


def test_suggestions_count_the_clients_of_each_tenant(wood: Wood) -> None:
    def suggested() -> list[str]:
        found = good(wood.keys.act("GET", f"{wood.shop.path}/suggestions?q=which"))["suggestions"]
        return [one["q"] for one in found]

    for tenant in ("a", "b"):
        wood.click(tenant, f"{tenant}5", "7", "7", None)
    assert suggested() == [], "three clients are needed"
    wood.click("owner", "a5", "7")
    assert suggested() == [QUERY]
