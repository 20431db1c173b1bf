"""The commands of `nacre study`: names and the functions they call, no logic. Needs typer."""

from pathlib import Path
from typing import Annotated

from typer import Option, Typer

from nacre.cli.options import Results
from nacre.study.profile import StudyProfile
from nacre.study.recall.data import Question
from nacre.study.spiral.grid import Section

study = Typer(help="Small experiments that ask one question of many models.", no_args_is_help=True)


@study.command("recall")
def study_recall(
    model: Annotated[
        list[str] | None,
        Option(
            "--model",
            "-m",
            help="Models, with options if need be, such as 'nac:match=content,selection=exact'; repeated.",
            show_default="nac, nac-plus, sdpa",
        ),
    ] = None,
    question: Annotated[
        list[Question] | None, Option(help="How the item is asked for; repeated.", show_default="key")
    ] = None,
    length: Annotated[
        list[int] | None, Option(help="Steps of a sequence, repeated.", min=3, show_default="64")
    ] = None,
    top_k: Annotated[
        list[int] | None,
        Option(help="Keys of a query in NAC layers, repeated.", min=1, show_default="each layer's own"),
    ] = None,
    seeds: Annotated[int, Option(help="How many seeds, from 0 on.", min=1)] = 1,
    steps: Annotated[int, Option(help="Training steps.", min=1)] = 1500,
    ask_at: Annotated[
        list[int] | None,
        Option(help="Ask the trained networks at this length, too; repeated.", min=3, show_default="none"),
    ] = None,
    out: Results = Path("studies/recall"),
) -> None:
    """Can a model find one item among many? Trains it on associative recall, and shows what its keys hold."""
    from nacre.study.recall.command import MODELS, Recall, run_recall

    questions = question or [Question.KEY]
    run_recall(Recall(model or MODELS, questions, length or [64], top_k or [], seeds, steps, ask_at or [], out))


@study.command("frozen")
def study_frozen(
    profile: Annotated[StudyProfile, Option(help="How finely to look; both take seconds.")] = StudyProfile.QUICK,
    out: Results = Path("studies/frozen"),
) -> None:
    """How wrong does a logit get whose gates are frozen? Four regimes, the theorem's bound, orders of growth."""
    from nacre.study.frozen.command import Frozen, run_frozen

    run_frozen(Frozen(profile, out=out))


@study.command("uat")
def study_uat(
    profile: Annotated[StudyProfile, Option(help="How much is trained: minutes, or hours.")] = StudyProfile.QUICK,
    out: Results = Path("studies/uat"),
) -> None:
    """Does a wider NAC layer fit a function better, and what does its time weighting do?"""
    from nacre.study.uat.command import Uat, run_uat

    run_uat(Uat(profile, out))


@study.command("spiral")
def study_spiral(
    profile: Annotated[
        StudyProfile, Option(help="quick: some values, minutes; paper: the paper's values and lengths, days.")
    ] = StudyProfile.QUICK,
    section: Annotated[list[Section] | None, Option(help="What to vary; repeated.", show_default="all")] = None,
    seeds: Annotated[
        int | None, Option(help="How many seeds, from 0 on.", min=1, show_default="the profile's")
    ] = None,
    steps: Annotated[
        int | None, Option(help="Training steps of a run.", min=2, show_default="the profile's")
    ] = None,
    out: Results = Path("studies/spiral"),
) -> None:
    """What do heads, sparsity and the number of keys do to NAC? Trains it to complete irregular spirals."""
    from nacre.study.spiral.command import SpiralStudy, run_spiral

    run_spiral(SpiralStudy(profile, section or list(Section), seeds, steps, out))
