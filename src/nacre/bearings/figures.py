"""The figure of a degradation curve. Needs matplotlib."""

from nacre._util.plotting import COLOURS, TEXT, TITLE, open_frame, png
from nacre.bearings.predict import Curve
from nacre.data.rigs.labels import Label

_AXIS = {
    Label.FRACTION: "share of life used",
    Label.RUL: "minutes left",
    Label.PHYSICS: "degradation (the paper's label)",
}


def draw_curve(curve: Curve) -> bytes:
    """A PNG: the mean of the fold models over time, and the band from the lowest to the highest."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 4.2), layout="constrained")
    ax = figure.subplots()
    hours, colour = curve.seconds / 3600, COLOURS[0]
    many = curve.models.shape[1]
    ax.fill_between(hours, *curve.band, color=colour, alpha=0.25, linewidth=0, label=f"{many} fold models")
    ax.plot(hours, curve.mean, color=colour, linewidth=1.6, label="their mean")
    if curve.label is not Label.RUL:
        ax.axhline(1.0, color="#9a9a9a", linewidth=0.8, linestyle="--")
        ax.set_ylim(min(0.0, float(curve.models.min())), max(1.05, float(curve.models.max())))
    ax.set_xlabel("hours since the recording began", fontsize=TEXT)
    ax.set_ylabel(_AXIS[curve.label], fontsize=TEXT)
    ax.set_title(curve.name, fontsize=TITLE)
    ax.legend(frameon=False, fontsize=TEXT, loc="upper left")
    open_frame(ax)
    return png(figure)
