"""Connects this process to a Ray cluster. Ray is imported with the first connection: it reads its variables then."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from index.errors import SearchError

ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",  # Ray reports its use to its makers otherwise
    "RAY_SERVE_USE_GRPC_BY_DEFAULT": "1",
    "RAY_SERVE_RUN_USER_CODE_IN_SEPARATE_THREAD": "0",  # a replica has threads of its own
}
"""The variables that Ray reads when it is imported, in the processes of the service and in its own."""
NAMESPACE = "softseek"


class NoCluster(SearchError):
    """There is no Ray cluster at the address, it has no partitions, or a machine has no place for a replica."""


class WorkLost(Exception):
    """A machine or process of the cluster ended before its task did."""


class Cluster:
    """A Ray cluster that this process is connected to."""

    def put(self, value: Any) -> Any:
        """Store a value in the cluster once, for any number of tasks; return the argument that stands for it."""
        import ray

        return ray.put(value)

    def streamed(self, function: Callable[..., Iterator[Any]], *arguments: Any) -> Iterator[Any]:
        """Run a function of an importable module on a core of the cluster; yield what it yields.

        Raises WorkLost, and what the function raises. The task ends if the iterator is closed, or this process ends.
        """
        import ray
        from ray.exceptions import RayError, RayTaskError

        task = ray.remote(num_cpus=1, max_retries=0, num_returns="streaming")(function).remote(*arguments)
        try:
            for reference in task:
                yield ray.get(reference)
        except RayTaskError:
            raise
        except RayError as error:
            raise WorkLost(str(error)) from error
        finally:
            ray.cancel(task, force=True)


@contextmanager
def connected(address: str | None) -> Iterator[Cluster]:
    """Connect this process to a cluster, in the context. Raises NoCluster. address: as for `connect`."""
    connect(address)
    import ray

    try:
        yield Cluster()
    finally:
        ray.shutdown()


def connect(address: str | None, cores: int | None = None) -> None:
    """Connect this process to a Ray cluster; None starts a cluster of this machine, which ends with the process.

    cores: that a started cluster gives away; None: all of the machine.

    Ray is started in the thread that calls: the processes of a cluster end with the thread that has started them.
    Raises NoCluster if there is none at the address.
    """
    os.environ.update({name: value for name, value in ENVIRONMENT.items() if name not in os.environ})
    try:
        import ray
    except ImportError as error:
        raise NoCluster("Ray is not installed: pip install 'softseek[ray]'") from error

    own: dict[str, Any] = {}
    if address is None:
        own = {"include_dashboard": False, "_node_ip_address": "127.0.0.1", "num_cpus": cores}
    with _handlers_kept():
        try:
            ray.init(
                address=address or "local",
                namespace=NAMESPACE,
                configure_logging=False,
                log_to_driver=False,
                runtime_env={"env_vars": ENVIRONMENT | _inherited()},
                **own,
            )
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise NoCluster(f"no Ray cluster at {address or 'this machine'}: {error}") from error


def _inherited() -> dict[str, str]:
    """Return the variables of this process that a process of the cluster needs to find libraries and weights."""
    names = ("PYTHONPATH", "HF_HOME", "HF_HUB_OFFLINE")
    return {name: os.environ[name] for name in names if name in os.environ}


@contextmanager
def _handlers_kept() -> Iterator[None]:
    """Give the process its handlers of signals back, which Ray takes over."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            for number, handler in before.items():
                signal.signal(number, handler)
