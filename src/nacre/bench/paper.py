"""What the paper says of cost: its run-time table (one T4 GPU) and its complexity table."""

from dataclasses import asdict, dataclass

from nacre.bench.record import BenchEntry

COLUMN = "reported (paper, GPU)"
SIZE = {
    "length": 1024,
    "batch": 1,
    "d_model": 64,
    "num_heads": 4,
    "stamps": False,
}  # of every row of the run-time table


@dataclass(frozen=True)
class ReportedCost:
    """A row of the run-time table: mean of 10 forward passes, its standard deviation, and peak GPU memory."""

    seconds: float
    deviation: float
    megabytes: float

    def __str__(self) -> str:
        """Time and memory."""
        return f"{self.seconds:.2f} s, {self.megabytes:.1f} MB"


RUN_TIME = {
    "ct-rnn": ReportedCost(7.1097, 0.3048, 0.67),
    "gru-ode": ReportedCost(12.2498, 0.0525, 0.64),
    "phased-lstm": ReportedCost(4.9812, 0.272, 0.80),
    "mmrnn": ReportedCost(7.5852, 0.2785, 0.96),
    "ltc-fc": ReportedCost(14.643, 0.2445, 0.99),
    "cfc-fc": ReportedCost(6.0988, 0.2135, 0.76),
    "ltc-ncp": ReportedCost(21.182, 0.2383, 0.56),
    "cfc-ncp": ReportedCost(21.239, 0.3327, 0.57),
    "mtan": ReportedCost(0.2721, 0.0054, 790.16),
    "odeformer": ReportedCost(0.3171, 0.0016, 167.71),
    "cta": ReportedCost(8.5275, 0.2355, 1.43),
    "contiformer": ReportedCost(0.662, 0.0075, 67.71),
    "pde-attention": ReportedCost(0.1299, 0.0026, 163.85),
    "ot-transformer": ReportedCost(0.768, 0.0043, 66.67),
    "nac-2k": ReportedCost(7.3071, 0.1547, 44.75),
    "nac-32k": ReportedCost(7.2313, 0.219, 549.86),
    "nac-09s": ReportedCost(7.222, 0.176, 150.85),
    "nac-02s": ReportedCost(7.252, 0.2018, 151.54),
    "nac-euler": ReportedCost(7.3367, 0.1719, 152.22),
    "nac-steady": ReportedCost(7.2942, 0.1451, 150.86),
    "nac": ReportedCost(7.4101, 0.1586, 151.50),
}

# n: length of the sequence, k: width, S: steps of an ODE solver
_SOLVER, _SDPA, _NAC = "O(n k S)", "O(n^2 k)", "O(n sqrt(n) k)"
COMPLEXITY = {
    "ct-rnn": _SOLVER,
    "ltc-fc": _SOLVER,
    "ltc-ncp": _SOLVER,
    "ncps-ltc": _SOLVER,
    "sdpa": _SDPA,
    "torch-mha": _SDPA,
    "torch-mha-fastpath": _SDPA,
    "nac": _NAC,
    "torch-nac": _NAC,
}


def reported(entry: BenchEntry) -> ReportedCost | None:
    """The paper's row for an entry, if it has one of that model and size.

    Example:
        >>> from nacre.bench.record import BenchEntry
        >>> str(reported(BenchEntry("nac", 1024)))
        '7.41 s, 151.5 MB'
    """
    size = {name: value for name, value in asdict(entry).items() if name != "model"}
    return RUN_TIME.get(entry.model) if size == SIZE else None
