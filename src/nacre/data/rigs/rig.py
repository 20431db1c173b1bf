"""The three test rigs of the paper: sampling rates, operating conditions and bearing geometry."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Geometry:
    """A rolling bearing."""

    balls: int  # their number
    ball: float  # diameter of a ball in millimetres
    pitch: float  # diameter of the circle of their centres in millimetres
    angle: float = 0.0  # contact angle in degrees

    def fault_frequencies(self, rpm: float) -> dict[str, float]:
        """Impacts a second of a damaged part while the inner ring turns: outer ring, inner ring, ball, cage.

        Example:
            >>> {name: round(hertz, 1) for name, hertz in PRONOSTIA.geometry.fault_frequencies(1800).items()}
            {'bpfo': 168.3, 'bpfi': 221.7, 'bsf': 107.7, 'ftf': 12.9}
        """
        turns = rpm / 60
        ratio = self.ball / self.pitch * math.cos(math.radians(self.angle))
        return {
            "bpfo": self.balls / 2 * turns * (1 - ratio),
            "bpfi": self.balls / 2 * turns * (1 + ratio),
            "bsf": self.pitch / (2 * self.ball) * turns * (1 - ratio**2),
            "ftf": turns / 2 * (1 - ratio),
        }


@dataclass(frozen=True)
class Condition:
    """Operating conditions of a bearing; None where not known."""

    rpm: float | None = None
    load: float | None = None  # radial, in newtons


@dataclass(frozen=True)
class Rig:
    """A test rig."""

    name: str  # part of file names
    rate: float  # samples a second
    samples: int | None  # of a snapshot; None if they differ
    period: float | None  # seconds from the start of a snapshot to that of the next; None without pauses
    geometry: Geometry | None  # of its bearings; None if they differ
    conditions: tuple[Condition, ...] = ()  # by the number in front of the underscore in a bearing's name

    def condition(self, bearing: str) -> Condition:
        """The condition of a bearing, by its name.

        Example:
            >>> XJTU.condition("Bearing2_5")
            Condition(rpm=2250.0, load=11000.0)
        """
        digits = "".join(c for c in bearing.split("_")[0] if c.isdigit())
        number = int(digits) if digits else 0
        return self.conditions[number - 1] if 1 <= number <= len(self.conditions) else Condition()


# Nectoux et al. (2012); bearings NSK 6804RS.
PRONOSTIA = Rig(
    "pronostia",
    rate=25_600.0,
    samples=2560,
    period=10.0,
    geometry=Geometry(balls=13, ball=3.5, pitch=25.6),
    conditions=(Condition(1800.0, 4000.0), Condition(1650.0, 4200.0), Condition(1500.0, 5000.0)),
)
# Wang et al. (2018); bearings LDK UER204. The paper says 1,200 rpm of the first condition, but 35 Hz are 2,100.
XJTU = Rig(
    "xjtu-sy",
    rate=25_600.0,
    samples=32_768,
    period=60.0,
    geometry=Geometry(balls=8, ball=7.92, pitch=34.55),
    conditions=(Condition(2100.0, 12_000.0), Condition(2250.0, 11_000.0), Condition(2400.0, 10_000.0)),
)
# Hong and Thuan (2023): recordings of a few seconds of faulty bearings, none of a whole life.
HUST = Rig("hust", rate=51_200.0, samples=None, period=None, geometry=None)

RIGS = {rig.name: rig for rig in (PRONOSTIA, XJTU, HUST)}
