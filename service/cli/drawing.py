"""Draws heatmaps with matplotlib into a file. Matplotlib is imported when a figure is drawn, and never by a server."""

import warnings
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from service.cli import show
from service.cli.failures import ERROR, USAGE, Failure
from service.cli.heatmaps import Heatmap

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg", ".pdf")
DPI = 120
CELL_INCHES = (0.46, 0.3)
"""Width and height of a cell."""
LABEL_INCHES = (2.2, 3.2)
"""Room for the labels of rows, and for the title and the labels of columns."""
LEAST_WIDTH = 7.0
SIGNED, UNSIGNED = "RdBu", "Blues"
"""Colour maps of matplotlib. The numbers stand in the cells, so that no meaning needs a colour."""
LUMINANCE = (0.299, 0.587, 0.114)
DARK = 0.5
"""Cells whose colour has a smaller luminance get white numbers."""

HeatmapOption = Annotated[
    Path | None,
    typer.Option(
        "--heatmap",
        metavar="FILE",
        help="Draw heatmaps into this file: .png, .svg or .pdf.",
        dir_okay=False,
        writable=True,
    ),
]


def require_image_name(path: Path | None) -> None:
    """Raise Failure USAGE if a file name has no suffix of an image, or if its folder does not exist."""
    if path is None:
        return
    if path.suffix.lower() not in SUFFIXES:
        raise Failure(USAGE, f"--heatmap: expected a file that ends in {', '.join(SUFFIXES)}")
    if not path.absolute().parent.is_dir():
        raise Failure(USAGE, "--heatmap: the folder of the file does not exist")


def write(path: Path, heatmaps: Sequence[Heatmap], beside: bool = False) -> None:
    """Draw heatmaps below or beside each other into a file. Raises Failure ERROR if it cannot be written."""
    image = encoded(figure_of(heatmaps, beside), path.suffix.lower().removeprefix("."))
    try:
        path.write_bytes(image)
    except OSError as error:
        raise Failure(ERROR, f"--heatmap: {path} cannot be written: {error.strerror}") from error
    show.notice(f"heatmaps: {path}")


def size_of(heatmaps: Sequence[Heatmap], beside: bool = False) -> tuple[float, float]:
    """Return the width and height in inches of the figure of these heatmaps."""
    widths = [max(LEAST_WIDTH, LABEL_INCHES[0] + CELL_INCHES[0] * len(one.columns)) for one in heatmaps]
    heights = [LABEL_INCHES[1] + CELL_INCHES[1] * len(one.rows) for one in heatmaps]
    return (sum(widths), max(heights)) if beside else (max(widths), sum(heights))


def figure_of(heatmaps: Sequence[Heatmap], beside: bool = False) -> "Figure":
    """Return a figure with one set of axes for each heatmap, in their order."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(size_of(heatmaps, beside), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    rows = [1.0] if beside else [LABEL_INCHES[1] + CELL_INCHES[1] * len(one.rows) for one in heatmaps]
    shape = (1, len(heatmaps)) if beside else (len(heatmaps), 1)
    every = figure.subplots(*shape, squeeze=False, gridspec_kw={"height_ratios": rows})
    for axes, heatmap in zip(every.ravel(), heatmaps, strict=True):
        _draw(axes, heatmap)
    return figure


def encoded(figure: "Figure", suffix: str) -> bytes:
    """Return a figure as a file of this type: png, svg or pdf."""
    file = BytesIO()
    with warnings.catch_warnings():  # the font lacks some scripts; a box stands for each of their characters
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(file, format=suffix)
    return file.getvalue()


def _draw(axes: "Axes", heatmap: Heatmap) -> None:
    """Draw a matrix. Labels are plain text: a dollar sign in a document starts no formula."""
    import numpy as np

    most = heatmap.largest or max(abs(cell) for row in heatmap.cells for cell in row) or 1.0
    least = -most if heatmap.signed else 0.0
    colours = SIGNED if heatmap.signed else UNSIGNED
    image = axes.imshow(heatmap.cells, cmap=colours, vmin=least, vmax=most, aspect="auto")
    axes.set_title(heatmap.title, fontsize=10, loc="left", parse_math=False)
    axes.set_xticks(range(len(heatmap.columns)), heatmap.columns, rotation=60, ha="right", fontsize=7, parse_math=False)
    axes.set_yticks(range(len(heatmap.rows)), heatmap.rows, fontsize=8, parse_math=False)
    luminance = image.to_rgba(np.asarray(heatmap.cells))[..., :3] @ LUMINANCE
    for (row, column), light in np.ndenumerate(luminance):
        text = f"{heatmap.cells[row][column]:z.{heatmap.decimals}f}"
        colour = "white" if light < DARK else "black"
        axes.text(column, row, text, ha="center", va="center", fontsize=6, color=colour)
