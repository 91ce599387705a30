"""Admin keys that no request makes: the key of the environment, and the key in a file."""

from pathlib import Path

from service.keys import actions
from tests.service.authorised import bearer
from tests.service.client import good, opened, problem, runtime_of

ADMIN_KEY = "a-secret-of-the-environment"


class TestAdminKeyOfTheEnvironment:
    def test_it_is_made_at_the_start_and_follows_the_setting(self, tmp_path: Path) -> None:
        with opened(tmp_path / "data", admin_key=ADMIN_KEY) as client:
            problem(client.get("/v1/keys"), 401, "unauthorized")
            (made,) = client.get("/v1/keys", headers=bearer(ADMIN_KEY)).json()["keys"]
            assert (made["name"], made["scopes"]) == ("SOFTSEEK_ADMIN_KEY", ["admin"])
            rotation = client.post(f"/v1/keys/{made['id']}/rotate", headers=bearer(ADMIN_KEY))
            problem(rotation, 409, "key_of_environment")
            assert ADMIN_KEY not in rotation.text
        with opened(tmp_path / "data", admin_key=f"{ADMIN_KEY}-2") as client:
            assert client.get("/v1/keys", headers=bearer(ADMIN_KEY)).status_code == 401
            (same,) = client.get("/v1/keys", headers=bearer(f"{ADMIN_KEY}-2")).json()["keys"]
            assert same["id"] == made["id"]
        with opened(tmp_path / "data") as client:
            assert client.get("/v1/keys", headers=bearer(f"{ADMIN_KEY}-2")).status_code == 200

    def test_the_audit_log_has_its_making_and_each_change(self, tmp_path: Path) -> None:
        for key in (ADMIN_KEY, ADMIN_KEY, f"{ADMIN_KEY}-2"):
            with opened(tmp_path / "data", admin_key=key) as client:
                acts = client.get("/v1/audit", headers=bearer(key)).json()["acts"]
                (made,) = client.get("/v1/keys", headers=bearer(key)).json()["keys"]
        path = f"/v1/keys/{made['id']}"
        assert [(one["act"], one["target"], one["status"], one["key_id"], one["outcome"]) for one in acts] == [
            ("rotate_key", f"{path}/rotate", 200, None, "done"),
            ("create_key", path, 201, None, "done"),
        ]

    def test_it_may_look_like_any_key(self, tmp_path: Path) -> None:
        with opened(tmp_path / "data", admin_key="sk_chosen_by_a_person_0123456789") as client:
            assert client.get("/v1/keys", headers=bearer("sk_chosen_by_a_person_0123456789")).status_code == 200


def test_an_admin_key_in_a_file_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as client:
        runtime = runtime_of(client)
        path = actions.make_admin_key_file(runtime)
        assert path == tmp_path / "data" / "admin.key"
        assert path.stat().st_mode & 0o777 == 0o600
        headers = bearer(path.read_text().strip())
        (made,) = good(client.get("/v1/keys", headers=headers))["keys"]
        assert actions.make_admin_key_file(runtime) is None
        (act,) = good(client.get("/v1/audit", headers=headers))["acts"]
        assert (act["act"], act["target"], act["status"]) == ("create_key", f"/v1/keys/{made['id']}", 201)
