"""Plots for a page that loads nothing: SVG text to stand inside HTML, in the page's own colours, light or dark.

Drawn by matplotlib without a display. The same data always give the same text.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ansible_collections.muster.cluster.plugins.module_utils.words.errors import MusterError
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.collective_settings import size_text
from markupsafe import Markup

Array = Any

# What stands in a plot until the page's own colour takes its place; nothing else is ever drawn in these.
_INK, _DIM, _LINE, _CARD = "#010203", "#010204", "#010205", "#010206"
_SERIES = tuple(f"#0102{10 + index:02x}" for index in range(8))
_COLOURS = {_INK: "var(--ink)", _DIM: "var(--dim)", _LINE: "var(--line)", _CARD: "var(--card)"} | {
    colour: f"var(--s{index + 1})" for index, colour in enumerate(_SERIES)
}
_MARKERS = "osD^vP*X"
# So few numbers say little, so many have room above each other.
LABELS_AT_LEAST, LABELS_AT_MOST = 3, 8
# Share of what is usual to colour: readable without red and green, and on a light as on a dark page.
HEAT_LOW, HEAT_HIGH = 0.6, 1.1
_HEAT = ((0.0, "#a50f15"), (0.4, "#e6550d"), (0.64, "#fdae6b"), (0.74, "#c9d3dd"), (0.8, "#6b9bc8"), (1.0, "#1f5fa8"))


class PlotError(MusterError):
    """There can be no plots on this machine; says why."""


@dataclass(frozen=True)
class Line:
    """One curve: ``low`` and ``high`` bound the band around it, ``dashed`` one goes with the solid one before it."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    series: int = 0
    dashed: bool = False


@dataclass(frozen=True)
class Axes:
    """What a curve's axes say; a ``log_y`` axis is for values above 0, a ``percent`` one for those around 100."""

    x: str
    y: str
    log_y: bool = False
    percent: bool = False


@dataclass(frozen=True)
class Bands:
    """Where the cells of a heat map belong: each named stretch of an axis, in cells."""

    names: tuple[str, ...]
    starts: tuple[int, ...]
    cells: int

    @property
    def middles(self) -> tuple[float, ...]:
        """Return where each stretch's name stands."""
        ends = (*self.starts[1:], self.cells)
        return tuple((start + end - 1) / 2 for start, end in zip(self.starts, ends, strict=True))


@dataclass(frozen=True)
class Marks:
    """What a heat map points at: single cells as (row, column), and whole lines by their number."""

    rings: tuple[tuple[int, int], ...] = ()
    lines: tuple[int, ...] = ()


def ready() -> None:
    """Load matplotlib; raises PlotError where it cannot be."""
    try:
        import matplotlib.figure  # noqa: F401, PLC0415 - a page without plots needs no matplotlib
    except ImportError as exc:
        raise PlotError(f"matplotlib cannot be loaded ({exc}); pip install 'matplotlib>=3.8'") from exc


def curves(name: str, lines: Sequence[Line], axes: Axes, alt: str) -> Markup:
    """Return curves over message sizes in bytes; ``name`` is unique on the page. Raises PlotError."""
    with _drawing(name) as drawn:
        figure, plot = drawn.plot(4.7, 3.1)
        for line in lines:
            colour = _SERIES[line.series % len(_SERIES)]
            if line.low is not None and line.high is not None:
                plot.fill_between(line.x, line.low, line.high, color=colour, alpha=0.16, linewidth=0)
            plot.plot(
                line.x,
                line.y,
                color=colour,
                linestyle="--" if line.dashed else "-",
                linewidth=1.6,
                marker=_MARKERS[line.series % len(_MARKERS)],
                markersize=3.6,
                # The dashed one of a pair of curves goes with the solid one's name.
                label="_" if line.dashed else line.label,
            )
        plot.set_xscale("log", base=2)
        if axes.log_y:
            plot.set_yscale("log")
        elif axes.percent:
            # Noise of a percent must not look like a fault.
            low, high = plot.get_ylim()
            plot.set_ylim(min(low, 95), max(high, 105))
        else:
            plot.set_ylim(bottom=0)
        sizes = sorted({size for line in lines for size in line.x})
        drawn.size_axis(plot, sizes)
        if axes.log_y:
            drawn.log_axis(plot)
        plot.set_xlabel(axes.x)
        plot.set_ylabel(axes.y)
        # Below the plot: inside it there is always a curve where the legend wants to be.
        figure.legend(
            loc="outside lower center", ncols=min(4, max(1, len(lines))), frameon=False, fontsize=8.5, columnspacing=1.2
        )
        return drawn.svg(figure, alt)


def heat_map(name: str, cells: Array, bands: Bands, marks: Marks, alt: str) -> Markup:
    """Return shares of what is usual, (c, c) with NaN where nothing was measured, as an image with its scale.

    Raises PlotError.
    """
    from matplotlib.colors import LinearSegmentedColormap  # noqa: PLC0415

    with _drawing(name) as drawn:
        figure, plot = drawn.plot(6.6, 5.9, "compressed")
        colours = LinearSegmentedColormap.from_list("heat", _HEAT).with_extremes(bad=(0, 0, 0, 0))
        image = plot.imshow(
            cells, cmap=colours, vmin=HEAT_LOW, vmax=HEAT_HIGH, interpolation="none", origin="upper", aspect="equal"
        )
        for start in bands.starts[1:]:
            if len(bands.starts) <= 64:
                plot.axhline(start - 0.5, color=_LINE, linewidth=0.7)
                plot.axvline(start - 0.5, color=_LINE, linewidth=0.7)
        every = max(1, -(-len(bands.names) // 24))
        middles, names = bands.middles[::every], [_cut(each) for each in bands.names[::every]]
        slanted = len(names) * max((len(each) for each in names), default=0) > 60
        plot.set_xticks(middles, names, rotation=90 if slanted else 0)
        plot.set_yticks(middles, names)
        plot.tick_params(length=0)
        if marks.rings:
            rows, columns = zip(*marks.rings, strict=True)
            plot.scatter(columns, rows, s=70, facecolors="none", edgecolors=_INK, linewidths=1.3)
        plot.grid(visible=False)
        edge = [bands.cells - 0.5] * len(marks.lines)
        plot.scatter(edge, marks.lines, s=34, marker="<", color=_INK, linewidths=0, clip_on=False, zorder=3)
        plot.set_xlim(-0.5, bands.cells - 0.5)
        plot.set_ylim(bands.cells - 0.5, -0.5)
        scale = figure.colorbar(image, ax=plot, fraction=0.04, pad=0.03, extend="both")
        ticks = [0.6, 0.7, 0.8, 0.9, 1.0, 1.1]
        scale.set_ticks(ticks, labels=[f"{tick:.0%}" for tick in ticks])
        scale.ax.tick_params(length=0)
        scale.outline.set_edgecolor(_LINE)
        return drawn.svg(figure, alt)


def ranges(name: str, rows: Sequence[tuple[str, float, float]], label: str, alt: str) -> Markup:
    """Return one line for each row from its low to its high value, the first on top. Raises PlotError."""
    with _drawing(name) as drawn:
        figure, plot = drawn.plot(4.7, 0.9 + 0.24 * len(rows))
        at = list(range(len(rows)))
        low, high = [row[1] for row in rows], [row[2] for row in rows]
        plot.axvline(1, color=_DIM, linewidth=0.9, linestyle=":")
        plot.hlines(at, low, high, color=_SERIES[0], linewidth=2, alpha=0.5)
        plot.plot(low, at, "o", color=_SERIES[0], markersize=4.5, label="p50")
        plot.plot(high, at, "D", color=_SERIES[1], markersize=4.5, label="p99")
        plot.set_yticks(at, [_cut(row[0], 22) for row in rows])
        plot.set_ylim(len(rows) - 0.5, -0.5)
        plot.set_xlabel(label)
        plot.grid(axis="y", visible=False)
        figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=8.5)
        return drawn.svg(figure, alt)


def histogram(name: str, values: Sequence[float], label: str, alt: str) -> Markup:
    """Return how many nodes have which value; the few far out stay visible on a logarithmic axis. Raises PlotError."""
    with _drawing(name) as drawn:
        figure, plot = drawn.plot(4.7, 3.1)
        low, high = min(values), max(values)
        margin = max(0.02, (high - low) * 0.02)
        plot.hist(
            values, bins=40, range=(low - margin, high + margin), color=_SERIES[0], edgecolor=_CARD, linewidth=0.4
        )
        plot.set_yscale("log")
        plot.set_ylim(bottom=0.7, top=len(values) * 1.5)
        drawn.log_axis(plot)
        plot.set_xlabel(label)
        plot.set_ylabel("nodes")
        return drawn.svg(figure, alt)


class _drawing:
    """Settings under which one plot is drawn, and its way into the page."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> _drawing:
        ready()
        import matplotlib  # noqa: PLC0415

        self._context = matplotlib.rc_context(
            {
                "svg.fonttype": "none",
                "svg.hashsalt": self.name,
                "font.family": "sans-serif",
                "font.size": 9.5,
                "axes.edgecolor": _LINE,
                "axes.labelcolor": _DIM,
                "axes.spines.top": False,
                "axes.spines.right": False,
                "axes.grid": True,
                "axes.axisbelow": True,
                "grid.color": _LINE,
                "grid.linewidth": 0.6,
                "text.color": _INK,
                "xtick.color": _LINE,
                "ytick.color": _LINE,
                "xtick.labelcolor": _DIM,
                "ytick.labelcolor": _DIM,
                "xtick.minor.visible": False,
                "axes.unicode_minus": False,
                # A node's name is text, whatever dollar signs are in it.
                "text.parse_math": False,
            }
        )
        self._context.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._context.__exit__(*error)

    def plot(
        self, width: float, height: float, layout: Literal["constrained", "compressed"] = "constrained"
    ) -> tuple[Any, Any]:
        """Return a figure of so many inches and its axes."""
        from matplotlib.backends.backend_svg import FigureCanvasSVG  # noqa: PLC0415
        from matplotlib.figure import Figure  # noqa: PLC0415

        figure = Figure(figsize=(width, height), layout=layout)
        FigureCanvasSVG(figure)
        figure.patch.set_visible(False)
        axes = figure.add_subplot()
        axes.patch.set_visible(False)
        return figure, axes

    def size_axis(self, plot: Any, sizes: Sequence[float]) -> None:
        """Write sizes as people do, at most as many as there is room for."""
        from matplotlib.ticker import NullLocator  # noqa: PLC0415

        # About six labels side by side, and none so near to another that they touch.
        room = math.log2(max(sizes) / min(sizes)) / 6 if len(sizes) > 1 else 0
        shown = [sizes[-1]]
        for size in reversed(sizes[:-1]):
            if math.log2(shown[-1] / size) >= room:
                shown.append(size)
        plot.set_xticks(shown, [size_text(int(size)) for size in shown])
        plot.xaxis.set_minor_locator(NullLocator())
        if len(sizes) == 1:
            plot.set_xlim(sizes[0] / 2, sizes[0] * 2)

    def log_axis(self, plot: Any) -> None:
        """Write a few numbers that people count in beside a logarithmic axis."""
        from matplotlib.ticker import NullLocator  # noqa: PLC0415

        # The limits come from the data; labels must not widen them.
        low, high = plot.get_ylim()
        at = log_ticks(low, high)
        plot.set_yticks(at, [f"{value:,.12g}" for value in at])
        plot.yaxis.set_minor_locator(NullLocator())
        plot.set_ylim(low, high)

    def svg(self, figure: Any, alt: str) -> Markup:
        """Return the figure as it stands in the page: no outer names, ids of its own, the page's colours."""
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
        text = out.getvalue()
        text = text[text.index("<svg") :]
        text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
        # HTML knows SVG's names by itself, and a link within it without a prefix.
        text = text.replace("xlink:href=", "href=")
        box = re.search(r'viewBox="([^"]+)"', text[: text.index(">")])
        assert box is not None
        body = text[text.index(">") + 1 :]
        body = re.sub(r'\bid="', f'id="{self.name}-', body)
        body = re.sub(r'(url\(|href=")#', rf"\1#{self.name}-", body)
        for colour, variable in _COLOURS.items():
            body = body.replace(colour, variable)
        # Matplotlib lays out by DejaVu Sans, which is wider than what most systems show.
        body = re.sub(r"font-family: [^;\"]*|(?<=px )'DejaVu Sans'[^;\"]*", _font, body)
        head = Markup('<svg viewBox="{}" role="img" aria-label="{}">').format(box[1], alt)
        return head + Markup(re.sub(r"\n\s*", "\n", body).strip())


def log_ticks(low: float, high: float) -> list[float]:
    """Return what to label between two values above 0: decades, else 1, 2 and 5 of each, else even steps.

    At most as many as have room above each other.
    """
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415

    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for digits in ((1,), (1, 2, 5)):
        ticks = [value for decade in decades for digit in digits if low <= (value := digit * 10.0**decade) <= high]
        if len(ticks) >= LABELS_AT_LEAST:
            return ticks[:: -(-len(ticks) // LABELS_AT_MOST)]
    return [float(value) for value in MaxNLocator(5).tick_values(low, high) if low <= value <= high]


def _font(found: re.Match[str]) -> str:
    return ("font-family: " if found[0].startswith("font-family") else "") + "system-ui, sans-serif"


def _cut(name: str, most: int = 18) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"
