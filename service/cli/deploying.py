"""`deploy`: partitions of the documents on a Ray cluster, which coordinators answer searches from."""

import os
import threading
from typing import Annotated

import typer

from service.cli import show
from service.cli.connection import import_ray, ready_to_open, settings_from
from service.cli.failures import USAGE, Failure
from service.cli.options import DataOption, JsonOption

MOST_PARTITIONS = 256
deploying = typer.Typer(help="Run parts of the service on other systems.", no_args_is_help=True)


@deploying.command()
def ray(
    partitions: Annotated[
        int, typer.Option(min=1, max=MOST_PARTITIONS, help="Parts that the documents of a collection are split into.")
    ],
    replicas: Annotated[int, typer.Option(min=1, max=64, help="Processes of each partition.")] = 1,
    most_replicas: Annotated[
        int | None,
        typer.Option(min=1, max=64, help="Processes of each partition under load; by default --replicas."),
    ] = None,
    cpus: Annotated[float, typer.Option(min=0.01, max=256, help="Cores that Ray reserves for a process.")] = 1.0,
    address: Annotated[
        str | None,
        typer.Option(
            help="The Ray cluster, HOST:PORT or auto; by default a cluster of this machine that ends with the command.",
            show_default=False,
        ),
    ] = None,
    data: DataOption = None,
    json_out: JsonOption = False,
) -> None:
    """Split the documents over processes of a Ray cluster. Coordinators answer: softseek serve --role coordinator."""
    os.umask(0o077)
    settings = settings_from(data=data)
    if settings.database is None:
        raise Failure(USAGE, "partitions need SOFTSEEK_DATABASE, the address of a PostgreSQL database")
    with ready_to_open(settings):
        from service.cluster.connection import connect

        cluster = import_ray()
        connect(address)
        try:
            wanted = cluster.Deployment(partitions, replicas, max(replicas, most_replicas or 0), cpus)
            cluster.deploy(settings, wanted)
            _announce(partitions, json_out)
            if address is None:
                threading.Event().wait()  # until a signal ends the command
        finally:
            if address is None:
                cluster.stop()


def _announce(partitions: int, json_out: bool) -> None:
    if json_out:
        show.data({"partitions": partitions})
        return
    show.line(f"{partitions} partitions answer; start coordinators, each with a data directory of its own:")
    show.line("  softseek serve --role coordinator --data DIR")
