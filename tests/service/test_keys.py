"""API keys: made, listed, rotated, deleted, expired, limited; and what a service without keys refuses."""

import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from pydantic import ValidationError

from service.http import rate_limits
from service.keys import actions
from service.runtime import keyring
from service.settings import Settings
from tests.service.authorised import Keys, bearer
from tests.service.client import DEFAULT, SECRET, create, event, good, opened, problem, runtime_of

PAGE = "https://shop.example"
FORWARDING = ("Forwarded", "X-Forwarded-For", "X-Forwarded-Proto", "x-forwarded-x", "X-Real-IP")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A service whose housekeeping does not run: it would store the last uses of keys."""
    data = tmp_path_factory.mktemp("keys") / "data"
    with opened(data, cors_origins="https://admin.example:8443") as client:
        good(client.put(f"{DEFAULT}/documents/known", json={"text": "a known document"}))
        yield client


@pytest.fixture(scope="module")
def keys(client: TestClient) -> Keys:
    return Keys.first(client)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with opened(tmp_path_factory.mktemp("bare") / "data") as client:
        yield client


def search(client: TestClient, headers: dict[str, str], **more: str) -> Any:
    return client.post(f"{DEFAULT}/search", json={"q": "known"}, headers={**headers, **more})


def stopped_clock(monkeypatch: pytest.MonkeyPatch) -> float:
    """Stop the clock and return its time."""
    moment = rate_limits.time.time()
    monkeypatch.setattr(rate_limits.time, "time", lambda: moment)
    return moment


class TestWithoutKeys:
    def test_loopback_may_do_everything(self, tmp_path: Path) -> None:
        with opened(tmp_path / "data") as client:
            assert client.get("/v1/keys").json() == {"keys": []}
            assert client.get("/metrics").status_code == 200
            assert client.get("/readyz").json() == {"status": "ready", "degraded": {}}
            first = {"name": "first", "scopes": ["search"]}
            problem(client.post("/v1/keys", json=first), 422, "first_key_needs_admin")
            assert client.get("/v1/collections").status_code == 200

    @pytest.mark.parametrize("header", FORWARDING)
    @pytest.mark.parametrize("path", ["/v1/collections", "/", "/livez"])
    def test_a_forwarded_request_is_refused_with_the_way_out(self, bare: TestClient, header: str, path: str) -> None:
        refused = problem(bare.get(path, headers={header: SECRET}), 403, "keys_needed")
        assert "softseek keys create" in refused["detail"]

    def test_insecure_and_keys_allow_forwarded_requests(self, tmp_path: Path) -> None:
        with opened(tmp_path / "data", insecure=True) as client:
            assert client.get("/v1/collections", headers={"X-Forwarded-For": "x"}).status_code == 200
        with opened(tmp_path / "data") as client:
            keys = Keys.first(client)
            headers = bearer(keys.admin) | {"X-Forwarded-For": "x"}
            assert client.get("/v1/collections", headers=headers).status_code == 200

    def test_access_without_keys_does_not_come_back(self, tmp_path: Path) -> None:
        with opened(tmp_path / "data") as client:
            keys = Keys.first(client)
            (only,) = keys.act("GET", "/v1/keys").json()["keys"]
            problem(keys.act("DELETE", f"/v1/keys/{only['id']}"), 409, "last_admin_key")
            other = keys.make("search")
            keys.expire(keys.make("admin"))
            problem(keys.act("DELETE", f"/v1/keys/{only['id']}"), 409, "last_admin_key")
            assert keys.act("DELETE", f"/v1/keys/{other['id']}").status_code == 204
        with opened(tmp_path / "data", insecure=True) as client:
            problem(client.get("/v1/collections"), 401, "unauthorized")
            assert client.get("/v1/collections", headers=bearer(keys.admin)).status_code == 200


class TestLife:
    def test_a_key_is_shown_once_and_stored_as_a_digest(self, client: TestClient, keys: Keys) -> None:
        made = keys.make("search", name="box", collections=["default"], rate_per_minute=100)
        assert len(made["key"].split("_", 2)[2]) >= 22
        listed = {one["id"]: one for one in keys.act("GET", "/v1/keys").json()["keys"]}
        shown = {name: value for name, value in made.items() if name != "key"}
        assert listed[made["id"]] == shown
        assert (shown["name"], shown["scopes"], shown["collections"]) == ("box", ["search"], ["default"])
        runtime = runtime_of(client)
        with runtime.database.read() as connection:
            rows = connection.exec_driver_sql("SELECT * FROM api_keys").all()
            acts = connection.exec_driver_sql("SELECT * FROM audit").all()
        secret = made["key"].split("_", 2)[2]
        assert secret not in str(rows) + str(acts) + keys.act("GET", "/v1/keys").text
        assert any(keyring.digest_of(made["key"].encode()) in row for row in rows)

    def test_a_deleted_key_is_refused_at_once(self, client: TestClient, keys: Keys) -> None:
        made = keys.make("search")
        assert search(client, bearer(made["key"])).status_code == 200
        assert keys.act("DELETE", f"/v1/keys/{made['id']}").status_code == 204
        problem(search(client, bearer(made["key"])), 401, "unauthorized")
        problem(keys.act("DELETE", f"/v1/keys/{made['id']}"), 404, "key_not_found")

    def test_an_expired_key_is_refused_as_a_wrong_key(
        self, client: TestClient, keys: Keys, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        tomorrow = datetime.now(UTC) + timedelta(days=1)
        made = keys.make("search", expires_at=tomorrow.isoformat())
        assert search(client, bearer(made["key"])).status_code == 200
        monkeypatch.setattr(keyring.time, "time", lambda: tomorrow.timestamp() + 1)
        expired, wrong = search(client, bearer(made["key"])), search(client, bearer("sk_x_wrong"))
        assert (expired.status_code, expired.content) == (401, wrong.content)

    def test_a_rotated_key_has_another_text_and_the_old_text_a_time_of_grace(
        self, client: TestClient, keys: Keys, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first = keys.make("search", name="rotated")
        second = good(keys.act("POST", f"/v1/keys/{first['id']}/rotate", {"grace_seconds": 100}))
        assert (second["id"], second["name"]) == (first["id"], "rotated")
        assert second["rotated_at"]
        assert [search(client, bearer(one["key"])).status_code for one in (first, second)] == [200, 200]
        later = datetime.now(UTC).timestamp() + 101
        with monkeypatch.context() as patched:
            patched.setattr(keyring.time, "time", lambda: later)
            assert [search(client, bearer(one["key"])).status_code for one in (first, second)] == [401, 200]
        third = good(keys.act("POST", f"/v1/keys/{first['id']}/rotate"))
        known = [search(client, bearer(one["key"])).status_code for one in (first, second, third)]
        assert known == [401, 401, 200]
        problem(keys.act("POST", "/v1/keys/missing/rotate"), 404, "key_not_found")

    def test_the_last_use_is_stored_at_most_once_a_minute(self, client: TestClient, keys: Keys) -> None:
        made = keys.make("search")
        assert made["last_used_at"] is None
        search(client, bearer(made["key"]))
        runtime = runtime_of(client)

        def stored() -> str | None:
            with runtime.database.read() as connection:
                found = connection.exec_driver_sql("SELECT last_used_at FROM api_keys WHERE id = ?", (made["id"],))
                value: str | None = found.scalar_one()
                return value

        assert stored() is None  # a search writes nothing
        actions.store_last_uses(runtime)
        first = stored()
        assert first is not None
        search(client, bearer(made["key"]))
        actions.store_last_uses(runtime)
        assert stored() == first
        actions.store_last_uses(runtime, least_seconds=0)
        assert (stored() or "") > first

    @pytest.mark.parametrize(
        "wrong",
        [
            {"scopes": []},
            {"scopes": ["read"]},
            {"name": ""},
            {"scopes": ["write"], "filter": 'tenant = "a"'},
            {"scopes": ["search", "admin"], "origins": [PAGE]},
            {"scopes": ["train"], "origins": [PAGE]},
            {"scopes": ["admin"], "collections": ["default"]},
            {"collections": []},
            {"collections": ["not a name"]},
            {"filter": "tenant = "},
            {"origins": ["*"]},
            {"origins": ["null"]},
            {"origins": [f"{PAGE}/"]},
            {"origins": ["https://shop.example:443"]},
            {"origins": ["http://shop.example:80"]},
            {"origins": ["https://shop.example:65536"]},
            {"origins": ["https://shop.example:08443"]},
            {"origins": ["shop.example"]},
            {"expires_at": "2020-01-01T00:00:00Z"},
            {"expires_at": "tomorrow"},
            {"expires_at": "9999-12-31T23:59:59-01:00"},
            {"expires_at": "0001-01-01T00:00:00+01:00"},
            {"rate_per_minute": 0},
            {"unknown": 1},
        ],
        ids=str,
    )
    def test_a_key_that_is_not_as_documented_is_refused(self, keys: Keys, wrong: dict[str, Any]) -> None:
        body = {"name": "wrong", "scopes": ["search"], **wrong}
        problem(keys.act("POST", "/v1/keys", body), 422, "invalid_request")


class TestBrowsers:
    @pytest.mark.parametrize("origins", ["https://a.example:443", "https://a.example,http://b.example:80", "a.example"])
    def test_the_setting_has_origins_as_browsers_send_them(self, origins: str) -> None:
        with pytest.raises(ValidationError, match="must be origins as browsers send them"):
            Settings(cors_origins=origins)

    def test_a_key_works_on_the_pages_of_its_origins_only(self, client: TestClient, keys: Keys) -> None:
        key = keys.headers("search", "events", origins=[PAGE])
        answer = search(client, key, Origin=PAGE)
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == PAGE
        assert "Origin" in answer.headers["vary"]
        posted = client.post(f"{DEFAULT}/events", json=event("known", user_query="x"), headers={**key, "Origin": PAGE})
        assert posted.json()["accepted"] == 1
        for origin in ({"Origin": "https://evil.example"}, {"Origin": f"{PAGE}.evil.example"}, {"Origin": "null"}, {}):
            refused = search(client, key, **origin)
            problem(refused, 403, "origin_not_allowed")
            assert "access-control-allow-origin" not in refused.headers

    def test_a_page_can_read_why_its_key_is_refused(self, client: TestClient, keys: Keys) -> None:
        keys.make("search", origins=[PAGE])
        refused = search(client, bearer("wrong"), Origin=PAGE)
        assert refused.headers["access-control-allow-origin"] == PAGE

    @pytest.mark.parametrize("origin", [PAGE, "https://admin.example:8443"])
    def test_a_preflight_of_a_known_origin_is_allowed_without_a_key(
        self, client: TestClient, keys: Keys, origin: str
    ) -> None:
        keys.make("search", origins=[PAGE])
        headers = {"Origin": origin, "Access-Control-Request-Method": "POST"}
        answer = client.options(f"{DEFAULT}/search", headers=headers)
        assert answer.status_code == 204
        assert answer.headers["access-control-allow-origin"] == origin
        assert "Authorization" in answer.headers["access-control-allow-headers"]
        other = client.options(f"{DEFAULT}/search", headers={**headers, "Origin": "https://evil.example"})
        assert "access-control-allow-origin" not in other.headers

    def test_the_setting_allows_its_origins_to_read_answers_to_other_keys(self, client: TestClient, keys: Keys) -> None:
        answer = search(client, bearer(keys.admin), Origin="https://admin.example:8443")
        assert answer.headers["access-control-allow-origin"] == "https://admin.example:8443"
        assert "access-control-allow-origin" not in search(client, bearer(keys.admin), Origin=PAGE).headers


class TestRateLimits:
    def test_a_key_over_its_rate_gets_429_until_its_minute_is_over(
        self, client: TestClient, keys: Keys, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        key, other = keys.headers("search", rate_per_minute=3), keys.headers("search", rate_per_minute=3)
        moment = stopped_clock(monkeypatch)
        assert [search(client, key).status_code for _ in range(3)] == [200] * 3
        refused = search(client, key)
        problem(refused, 429, "rate_limited")
        assert 1 <= int(refused.headers["retry-after"]) <= 60
        assert search(client, other).status_code == 200
        monkeypatch.setattr(rate_limits.time, "time", lambda: moment + 60.1)
        assert search(client, key).status_code == 200

    def test_every_minute_has_as_many_requests_as_the_rate_and_no_more(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rates, rate, allowed = rate_limits.RateLimits(), 7, list[float]()
        begin = stopped_clock(monkeypatch)
        for now in (begin + 0.7 * step for step in range(400)):
            monkeypatch.setattr(rate_limits.time, "time", lambda now=now: now)
            last_minute = [at for at in allowed if at > now - 60]
            waiting = rates.retry_after_seconds("key", rate)
            if len(last_minute) < rate:
                assert waiting is None
                allowed.append(now)
            else:
                assert waiting == math.ceil(last_minute[0] + 60 - now)


class TestIdempotency:
    def test_the_answers_of_a_key_are_not_given_to_another_key(self, client: TestClient, keys: Keys) -> None:
        once = {"Idempotency-Key": "same"}
        one, other = (keys.headers("search", "events", filter=f'tenant = "{name}"') for name in "ab")

        def sent(headers: dict[str, str], user_query: str) -> Any:
            body = event("known", user_query=user_query)
            return client.post(f"{DEFAULT}/events", json=body, headers={**headers, **once})

        assert sent(one, "a").status_code == 202
        problem(sent(one, "b"), 422, "idempotency_key_reused")
        assert sent(other, "b").status_code == 202
        assert sent(bearer(keys.admin), "c").status_code == 202

    def test_the_answer_with_a_new_key_is_never_kept(self, client: TestClient, keys: Keys) -> None:
        headers = {**bearer(keys.admin), "Idempotency-Key": "new key"}
        body = {"name": "twice", "scopes": ["search"]}
        first, second = (good(client.post("/v1/keys", json=body, headers=headers)) for _ in range(2))
        assert first["id"] != second["id"]
        with runtime_of(client).database.read() as connection:
            kept = connection.exec_driver_sql("SELECT body FROM idempotent_answers").scalars().all()
        assert not [one for one in kept if first["key"].encode() in one or second["key"].encode() in one]


class TestAudit:
    def acts(self, keys: Keys, **params: Any) -> Any:
        return good(keys.client.get("/v1/audit", params=params, headers=bearer(keys.admin)))

    def test_acts_of_administration_are_listed_with_their_key_and_outcome(self, client: TestClient, keys: Keys) -> None:
        made = keys.make("train")
        good(keys.act("PUT", "/v1/collections/audited", {"filterable": ["lang"]}))
        promotion = {"version": 0, "reason": SECRET, "force": True}
        keys.act("PUT", "/v1/collections/audited/models/aliases/champion", promotion)
        keys.act("POST", "/v1/collections/audited/models/aliases/champion/rollback")
        keys.act("POST", "/v1/collections/audited/documents/delete", {"filter": f'lang = "{SECRET}"'})
        keys.act("POST", "/v1/collections/audited/documents/delete", {"ids": ["x"]})
        client.delete("/v1/collections/audited", headers=bearer(made["key"]))
        client.delete("/v1/collections/audited", headers=keys.headers("search"))  # a public key cannot fill the log
        keys.act("DELETE", "/v1/collections/audited")
        found = self.acts(keys, limit=8)
        acts = [(one["act"], one["target"], one["outcome"]) for one in found["acts"]]
        path = "/v1/collections/audited"
        assert acts == [
            ("delete_collection", path, "done"),
            ("create_key", found["acts"][1]["target"], "done"),
            ("delete_collection", path, "refused"),
            ("delete_by_filter", f"{path}/documents/delete", "done"),
            ("roll_back", f"{path}/models/aliases/champion/rollback", "refused"),
            ("force_promotion", f"{path}/models/aliases/champion", "done"),
            ("set_collection", path, "done"),
            ("create_key", f"/v1/keys/{made['id']}", "done"),
        ]
        assert found["acts"][2]["key_id"] == made["id"]
        assert SECRET not in str(found)
        older = self.acts(keys, limit=2, cursor=found["cursor"])
        assert older["acts"][0]["at"] <= found["acts"][-1]["at"]

    def test_the_log_keeps_the_newest_acts(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("service.audit.actions.MOST_ACTS", 3)
        with opened(tmp_path / "data") as client:
            keys = Keys.first(client)
            for name in "abcde":
                keys.act("PUT", f"/v1/aliases/{name}", {"collection": "default"})
            targets = [one["target"] for one in self.acts(keys)["acts"]]
            assert targets == ["/v1/aliases/e", "/v1/aliases/d", "/v1/aliases/c"]
            assert self.acts(keys)["cursor"] is None

    def test_refused_acts_do_not_push_out_what_was_done(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("service.audit.actions.MOST_ACTS", 3)
        monkeypatch.setattr("service.audit.actions.MOST_REFUSED", 2)
        with opened(tmp_path / "data") as client:
            keys = Keys.first(client)
            train = keys.headers("train", rate_per_minute=5)
            stopped_clock(monkeypatch)
            keys.act("PUT", "/v1/aliases/done", {"collection": "default"})
            refused = [client.delete(f"/v1/aliases/{name}", headers=train).status_code for name in "abcdefg"]
            assert refused == [403] * 5 + [429] * 2
            acts = [(one["act"], one["status"], one["target"]) for one in self.acts(keys)["acts"]]
        assert acts[:3] == [
            ("delete_alias", 403, "/v1/aliases/e"),
            ("delete_alias", 403, "/v1/aliases/d"),
            ("set_alias", 201, "/v1/aliases/done"),
        ]
        assert [act for act, *_ in acts[3:]] == ["create_key", "create_key"]

    def test_an_act_whose_answer_is_lost_is_in_the_log(
        self, client: TestClient, keys: Keys, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as ended:
            ended.setattr("service.audit.actions.record", lambda *_: None)
            keys.act("PUT", "/v1/aliases/lost", {"collection": "default"})
            keys.act("PUT", "/v1/aliases/lost", {"collection": "missing"})  # refused, and not recorded in the act
        (act,) = self.acts(keys, limit=1)["acts"]
        assert (act["target"], act["status"], act["outcome"]) == ("/v1/aliases/lost", 0, "done")

    @pytest.mark.parametrize("name", ["replace_alias", "find_alias"], ids=["in the act", "after the act"])
    def test_a_defect_is_recorded_once(
        self, client: TestClient, keys: Keys, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        with monkeypatch.context() as broken:
            broken.setattr(f"service.aliases.repository.{name}", lambda *_: 1 / 0)
            assert keys.act("PUT", f"/v1/aliases/{name}", {"collection": "default"}).status_code == 500
        acts = [one for one in self.acts(keys)["acts"] if one["target"] == f"/v1/aliases/{name}"]
        assert [(one["status"], one["outcome"]) for one in acts] == [(500, "failed")]

    def test_a_repeated_request_is_no_further_act(self, client: TestClient, keys: Keys) -> None:
        good(keys.act("PUT", "/v1/collections/a", {}))
        good(keys.act("PUT", "/v1/collections/b", {}))
        headers = {**bearer(keys.admin), "Idempotency-Key": "swap once"}
        for _ in range(2):
            good(client.post("/v1/collections/swap", json={"a": "a", "b": "b"}, headers=headers))
        assert [one["act"] for one in self.acts(keys, limit=2)["acts"]] == ["swap_collections", "set_collection"]


def test_a_page_of_another_site_with_a_key_may_change_data(client: TestClient, keys: Keys) -> None:
    with_key = client.put(f"{DEFAULT}/rules/r", json={}, headers={**bearer(keys.admin), "Origin": PAGE})
    problem(with_key, 422, "invalid_request")


def test_a_page_of_another_site_without_keys_may_not(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as client:
        create(client, "safe")
        problem(client.delete("/v1/collections/safe", headers={"Origin": PAGE}), 403, "cross_origin")
