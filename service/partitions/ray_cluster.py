"""Partitions as deployments of Ray Serve: Ray places them on machines, checks them, and adds replicas under load.

Coordinators are no deployments. They are processes of `softseek serve`, which reach the partitions by the handles of
Serve, so that every request passes the same limits, keys and time-outs as in a service without Ray. Messages between
coordinators and partitions are pickled by Ray, so its network must be closed.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import grpc
import ray
from ray import serve
from ray.exceptions import RayError, RayTaskError
from ray.serve.exceptions import BackPressureError

from service.cluster.connection import NAMESPACE, NoCluster
from service.http.problems import Problem
from service.partitions.calls import Answer, Calls
from service.partitions.partition import Partition
from service.runtime.arenas import limit_arenas
from service.runtime.log_lines import configure_logging
from service.runtime.runtime import encoder_of
from service.searchers.document_part import DocumentPart
from service.searchers.searcher_runtime import SearcherRuntime
from service.settings import Settings
from service.storage.owner_lock import DirectoryOwned

APPLICATION = NAMESPACE
"""The name of the application of Ray Serve."""
FOLDER = "partitions"
"""The folder of the data directory with the data directories of the replicas."""
MOST_REPLICAS = 64
"""Replicas of a partition on one machine at most."""
REQUESTS = frozenset(name for name in vars(Partition) if not name.startswith("_"))


@dataclass(frozen=True)
class Deployment:
    """How the partitions are deployed.

    replicas and most_replicas: of each partition; Ray adds replicas up to the second when each has more requests in
    progress than threads. cpus: that Ray reserves for a replica.
    """

    partitions: int
    replicas: int = 1
    most_replicas: int = 1
    cpus: float = 1.0


class Replica:
    """A process of Ray with one partition. It keeps its copy of the database in a folder of its machine."""

    def __init__(self, settings: Settings, part: DocumentPart) -> None:
        limit_arenas()
        configure_logging(settings.log_level)
        self._runtime = opened_part(settings, part)
        self._partition = Partition(self._runtime, part)
        self._threads = ThreadPoolExecutor(settings.searches_alone, "partition")

    async def ask(self, request: str, *arguments: Any) -> Any:
        """Answer a request: the name of a method of `Partition`, with its arguments."""
        if request not in REQUESTS:
            raise ValueError(f"a partition has no request {request!r}")
        work = partial(getattr(self._partition, request), *arguments)
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def check_health(self) -> None:
        """Raise an error if the thread has ended that follows the database. Without the database it goes on."""
        if not self._runtime.is_following:
            raise RuntimeError("the replica no longer follows the database")

    def __del__(self) -> None:
        if hasattr(self, "_runtime"):
            self._runtime.close()


class Root:
    """The deployment that holds the others together. It knows how many partitions there are."""

    def __init__(self, partitions: list[Any]) -> None:
        self._partitions = partitions

    async def count(self) -> int:
        """Return the number of partitions."""
        return len(self._partitions)


class RayPartition:
    """A partition that is reached by a handle of Serve, which chooses among its replicas."""

    def __init__(self, handle: Any) -> None:
        self._ask = handle.options(method_name="ask", _by_reference=False)  # by gRPC, half the time of an actor's call

    def ask(self, request: str, *arguments: Any) -> Answer:
        answer: Answer = self._ask.remote(request, *arguments)
        return Translated(answer)


class Translated:
    """An answer whose errors are those of `Calls`.

    The refusal by a full queue is the problem of an overloaded service. An error of Ray itself is a ConnectionError; an
    error that the partition has raised stays.
    """

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    def result(self, timeout_s: float) -> Any:
        try:
            return self._answer.result(timeout_s=timeout_s)
        except BackPressureError as error:
            detail = "too many searches wait for the partitions"
            raise Problem(503, "overloaded", detail, headers={"Retry-After": "1"}) from error
        except RayTaskError:
            raise
        except (RayError, grpc.RpcError) as error:
            raise ConnectionError(f"the partition is not reached: {error}") from error


def opened_part(settings: Settings, part: DocumentPart) -> SearcherRuntime:
    """Start a searcher with a part of the documents, in the first folder that no other replica uses.

    A replica that starts again finds its copy there. Raises what `SearcherRuntime.open` raises.
    """
    encoder = encoder_of(settings)  # replicas of a machine share the converted model
    for slot in range(MOST_REPLICAS):
        folder = settings.data / FOLDER / f"{part.number}-of-{part.count}" / str(slot)
        try:
            return SearcherRuntime.open(settings.model_copy(update={"data": folder}), encoder, part=part)
        except DirectoryOwned:
            continue
    raise NoCluster(f"{MOST_REPLICAS} replicas of the partition run on this machine already")


def deploy(settings: Settings, deployment: Deployment) -> None:
    """Deploy the partitions, in place of an earlier deployment, and return when every partition answers."""
    serve.start(proxy_location="Disabled")
    without_keys = {"admin_key": None, "key": None}  # replicas need the address of the database alone
    file = settings.generation_file
    paths = {"data": settings.data.absolute(), "generation_file": file.absolute() if file else None}
    absolute = settings.model_copy(update=paths | without_keys)
    options = _options(settings, deployment)
    replicas = [
        serve.deployment(name=_name(number), **options)(Replica).bind(
            absolute, DocumentPart(number, deployment.partitions)
        )
        for number in range(deployment.partitions)
    ]
    root = serve.deployment(ray_actor_options={"num_cpus": 0})(Root).bind(replicas)
    serve.run(root, name=APPLICATION, route_prefix=None)


def calls_of_cluster(answers_partially: bool) -> Calls:
    """Return the partitions of the cluster that this process is connected to. Raises NoCluster if it has none."""
    try:
        count = serve.get_app_handle(APPLICATION).count.remote().result(timeout_s=30)
    except Exception as error:
        raise NoCluster(f"the Ray cluster has no partitions: {error}; see `softseek deploy ray`") from error
    handles = [serve.get_deployment_handle(_name(number), APPLICATION) for number in range(count)]
    return Calls([RayPartition(one) for one in handles], answers_partially)


def stop() -> None:
    """End the deployment, and disconnect from the cluster."""
    serve.shutdown()
    ray.shutdown()


def _name(number: int) -> str:
    return f"partition-{number}"


def _options(settings: Settings, deployment: Deployment) -> dict[str, Any]:
    options: dict[str, Any] = {
        "max_ongoing_requests": 4 * settings.searches_alone,
        "max_queued_requests": settings.search_queue,
        "ray_actor_options": {"num_cpus": deployment.cpus},
        "health_check_period_s": 2,
        "health_check_timeout_s": 10,
        "graceful_shutdown_timeout_s": 10,
    }
    if deployment.most_replicas <= deployment.replicas:
        return options | {"num_replicas": deployment.replicas}
    return options | {
        "autoscaling_config": {
            "min_replicas": deployment.replicas,
            "max_replicas": deployment.most_replicas,
            "target_ongoing_requests": settings.searches_alone,
        }
    }
