"""The commands of `nacre drive`: names and the functions they call, no logic. Needs typer."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option, Typer

from nacre._util.foreign_code import trusting
from nacre.cli.options import Host, Jobs, Results, Trust
from nacre.drive.carracing.policy import Decision

drive = Typer(help="Record drives, race networks, and see what they look at.", no_args_is_help=True)
_FirstSeed = Annotated[int, Option(help="Seed of the first track; the next ones follow.", min=0)]
_Limit = Annotated[int, Option(help="Steps after which an episode ends, 50 a second.", min=1)]


@drive.command("collect")
def drive_collect(
    episodes: Annotated[int, Option(help="How many.", min=1)] = 20,
    seed: _FirstSeed = 0,
    out: Annotated[Path, Option(help="Where episodes go.")] = Path("carracing"),
    noise: Annotated[
        float, Option(help="Share of steps with a random action, labelled by the expert.", min=0, max=0.9)
    ] = 0.0,
    randomize: Annotated[bool, Option("--randomize", help="Random colours of road and grass.")] = False,
    policy: Annotated[
        Path | None,
        Option(help="A Stable-Baselines3 PPO file (.zip) that drives.", show_default="the scripted expert"),
    ] = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Drive and print, but keep nothing.")] = False,
    limit: _Limit = 2000,
    jobs: Jobs = None,
) -> None:
    """Record an expert in CarRacing. What is recorded already is kept, so more episodes can be added."""
    from nacre.drive.carracing.collect import Collect, collect

    collect(Collect(episodes, seed, out, noise, randomize, policy, not dry_run, limit, jobs))


@drive.command("race")
def drive_race(
    runs: Annotated[
        list[str], Argument(help="Run directories, such as runs/carracing/nac/fold0-seed0, or expert.")
    ],
    episodes: Annotated[int, Option(help="Tracks.", min=1)] = 10,
    seed: _FirstSeed = 10_000,
    randomize: Annotated[
        bool, Option("--randomize", help="Drive the same tracks in random colours, too.")
    ] = False,
    out: Results = Path("races"),
    limit: _Limit = 2000,
    film: Annotated[bool, Option(help="Film the first track, with what networks look at.")] = True,
    decide: Annotated[
        Decision, Option(help="Actions take turns by their probability, or always the likeliest.")
    ] = Decision.TURNS,
    jobs: Jobs = None,
    trust: Trust = None,
) -> None:
    """Let networks drive tracks that they have never seen. Start it again to resume."""
    from nacre.drive.carracing.race import Race, run_race

    with trusting(trust or ()):
        run_race(Race(runs, episodes, seed, randomize, out, limit, film, decide, jobs))


@drive.command("udacity")
def drive_udacity(
    run: Annotated[Path, Argument(help="Run directory, such as runs/udacity/nac/fold0-seed0.")],
    port: Annotated[int, Option(help="Port; the released simulators connect to 4567.", min=0, max=65535)] = 4567,
    host: Host = "127.0.0.1",
    speed: Annotated[float, Option(help="Speed to keep, in miles per hour.", min=1, max=30)] = 15.0,
    trust: Trust = None,
) -> None:
    """Drive the car of Udacity's simulator: start this, then the simulator in autonomous mode. Ctrl-C ends it."""
    from nacre.drive.udacity.driver import drive_simulator

    with trusting(trust or ()):
        drive_simulator(run, host, port, speed)
