"""The script that installs Chromium for the tests of the web pages. All commands that it calls are stand-ins."""

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / ".ci" / "install-browser"
SHELL = "chromium-headless-shell"
BASH = shutil.which("bash") or ""
SKIPPED = "the tests of the web pages will be skipped."
pytestmark = pytest.mark.skipif(not BASH, reason="needs bash")


class Machine:
    """A machine whose commands are the files of one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "bin"
        self.calls = folder / "calls"
        self.folder.mkdir()
        self.has("env", f'while [[ "$1" == *=* ]]; do shift; done; "{BASH}" "{self.folder}/$1" "${{@:2}}"')

    def has(self, name: str, code: str = "") -> None:
        """Add a command."""
        command = self.folder / name
        command.write_text(f"#!{BASH}\n{code}\n")
        command.chmod(0o755)

    def has_apt(self, code: str = "") -> None:
        """Add an apt-get that keeps its calls without their options, and then runs the code."""
        self.has(
            "apt-get", f'for word; do [[ $word == -* || $word == *::* ]] || echo "$word"; done >>"{self.calls}"\n{code}'
        )

    def run(self) -> str:
        """Run the script and return its output. Asserts success."""
        environment = {"PATH": str(self.folder)}
        done = subprocess.run([BASH, SCRIPT], env=environment, capture_output=True, text=True, check=True, timeout=60)
        return done.stdout + done.stderr

    def installed(self) -> list[str]:
        """Return the words of the calls of apt-get."""
        return self.calls.read_text().split() if self.calls.exists() else []


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize("name", ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"])
def test_nothing_is_installed_beside_a_chromium(machine: Machine, name: str) -> None:
    machine.has(name)
    machine.has("id", "echo 0")
    machine.has_apt()
    assert machine.run() == ""
    assert machine.installed() == []


def test_root_installs_the_package(machine: Machine) -> None:
    machine.has("id", "echo 0")
    machine.has_apt()
    machine.run()
    assert machine.installed() == ["update", "install", SHELL]


def test_the_browser_with_windows_is_installed_where_there_is_no_other(machine: Machine) -> None:
    machine.has("id", "echo 0")
    machine.has_apt(f'[[ "$*" != *{SHELL} ]]')
    assert SKIPPED not in machine.run()
    assert machine.installed() == ["update", "install", SHELL, "install", "chromium"]


def test_a_user_with_sudo_installs_the_package(machine: Machine) -> None:
    machine.has("id", "echo 1000")
    machine.has("sudo", '[ "$1" = -n ] && shift && case $1 in true) ;; *) "$@" ;; esac')
    machine.has_apt()
    machine.run()
    assert machine.installed() == ["update", "install", SHELL]


def test_a_user_without_rights_is_told_that_tests_are_skipped(machine: Machine) -> None:
    machine.has("id", "echo 1000")
    machine.has("sudo", "echo 'a password is required' >&2; exit 1")
    machine.has_apt()
    assert machine.run() == f"There is no Chromium, and installing it needs root: {SKIPPED}\n"
    assert machine.installed() == []


def test_a_machine_without_apt_is_told_that_tests_are_skipped(machine: Machine) -> None:
    machine.has("id", "echo 0")
    assert machine.run() == f"There is no Chromium, and no apt-get to install it: {SKIPPED}\n"


def test_a_failed_installation_is_no_error_and_says_why_in_one_line(machine: Machine) -> None:
    machine.has("id", "echo 0")
    machine.has_apt("echo Reading; echo 'E: Unable to locate package chromium'; exit 100")
    last = machine.run().splitlines()[-1]
    assert last.endswith(f"(E: Unable to locate package chromium): {SKIPPED}")
