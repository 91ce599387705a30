"""An API key whose stored row differs from its checksum is refused from the next start on."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from service.http.access import Asked
from service.http.problems import Problem
from service.keys import actions
from service.keys.schemas import KeyIn
from tests.service.authorised import Keys, bearer
from tests.service.client import opened, problem, runtime_of
from tests.service.test_admin_keys import ADMIN_KEY
from tests.service.test_keys import search


def damage(client: TestClient, key_id: str, change: str) -> None:
    """Change columns of a stored key as a disk that flips a bit does."""
    with runtime_of(client).database.write() as connection:
        connection.exec_driver_sql(f"UPDATE api_keys SET {change} WHERE id = ?", (key_id,))


@pytest.mark.parametrize(
    "change",
    [
        "scopes = '[\"admin\"]'",
        pytest.param("scopes = '[\"searc'", marks=pytest.mark.sqlite),
        "rate_per_minute = NULL",
        "expires_at = NULL",
        pytest.param("name = CAST(x'69ff' AS TEXT)", marks=pytest.mark.sqlite),
        "checksum = NULL",
    ],
)
def test_a_key_that_differs_from_its_checksum_is_refused_and_can_be_deleted(
    tmp_path: Path, change: str, capfd: pytest.CaptureFixture[str]
) -> None:
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    with opened(tmp_path / "data") as client:
        keys = Keys.first(client)
        made = keys.make("search", rate_per_minute=3, expires_at=tomorrow)
        assert search(client, bearer(made["key"])).status_code == 200
        damage(client, made["id"], change)
    capfd.readouterr()
    with opened(tmp_path / "data") as client:
        said = "".join(capfd.readouterr())
        assert "key_damaged" in said
        assert made["id"] in said
        problem(search(client, bearer(made["key"])), 401, "unauthorized")
        keys = Keys(client, keys.admin)
        _, listed = keys.act("GET", "/v1/keys").json()["keys"]
        assert (listed["id"], listed["scopes"], listed["collections"]) == (made["id"], [], [])
        problem(keys.act("POST", f"/v1/keys/{made['id']}/rotate"), 409, "key_damaged")
        assert keys.act("DELETE", f"/v1/keys/{made['id']}").status_code == 204
        assert len(keys.act("GET", "/v1/keys").json()["keys"]) == 1


def test_a_service_whose_only_key_is_damaged_stays_closed(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as client:
        keys = Keys.first(client)
        (only,) = keys.act("GET", "/v1/keys").json()["keys"]
        damage(client, only["id"], "rate_per_minute = 1000")
    with opened(tmp_path / "data") as client:
        problem(client.get("/v1/collections"), 401, "unauthorized")
        problem(client.get("/v1/collections", headers=bearer(keys.admin)), 401, "unauthorized")
        runtime = runtime_of(client)
        with pytest.raises(Problem, match="last key with the scope admin"):
            actions.delete_key(runtime, only["id"])
        made = actions.create_key(runtime, KeyIn(name="second", scopes=["admin"]), Asked())
        actions.delete_key(runtime, only["id"])
        (listed,) = client.get("/v1/keys", headers=bearer(made["key"])).json()["keys"]
        assert listed["id"] == made["id"]


def test_the_last_use_of_a_damaged_key_is_not_stored(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as client:
        keys = Keys.first(client)
        made = keys.make("search")
        damage(client, made["id"], "scopes = '[\"admin\"]'")
        assert search(client, bearer(made["key"])).status_code == 200  # the rights of the start
        actions.store_last_uses(runtime_of(client), least_seconds=0)
        used = {one["id"]: one["last_used_at"] for one in keys.act("GET", "/v1/keys").json()["keys"]}
        assert used[made["id"]] is None


@pytest.mark.sqlite
def test_a_damaged_last_use_does_not_stop_the_storing_of_others(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as client:
        keys = Keys.first(client)
        made, other = keys.make("search"), keys.make("search")
        damage(client, made["id"], "last_used_at = CAST('2026' AS BLOB)")
        for one in (made, other):
            assert search(client, bearer(one["key"])).status_code == 200
        actions.store_last_uses(runtime_of(client), least_seconds=0)
        with runtime_of(client).database.read() as connection:
            (row,) = [row for row in actions.key_rows(connection) if row.id == other["id"]]
        assert row.last_used_at


@pytest.mark.parametrize(
    "change", ["from_environment = FALSE", "scopes = '[]'", pytest.param("digest = x'00'", marks=pytest.mark.sqlite)]
)
def test_the_key_of_the_environment_is_made_again(tmp_path: Path, change: str) -> None:
    with opened(tmp_path / "data", admin_key=ADMIN_KEY) as client:
        (made,) = client.get("/v1/keys", headers=bearer(ADMIN_KEY)).json()["keys"]
        damage(client, made["id"], change)
    with opened(tmp_path / "data", admin_key=ADMIN_KEY) as client:
        both = client.get("/v1/keys", headers=bearer(ADMIN_KEY)).json()["keys"]
        assert [(one["id"] == made["id"], one["scopes"]) for one in both] == [(True, []), (False, ["admin"])]
