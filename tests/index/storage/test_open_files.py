"""The limit on open files is raised to what the system allows."""

import subprocess
import sys

PROGRAM = """
import resource
from index.storage.open_files import allow_many_open_files

_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (min(64, most), most))
allow_many_open_files()
print(resource.getrlimit(resource.RLIMIT_NOFILE) == (most, most))
"""


def test_the_limit_is_raised() -> None:
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "True"
