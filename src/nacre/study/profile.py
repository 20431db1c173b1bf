"""`StudyProfile`: how thorough a study is."""

from enum import StrEnum


class StudyProfile(StrEnum):
    """How much of a study is run."""

    QUICK = "quick"  # some of the values, short trainings
    PAPER = "paper"  # the values and lengths of the paper
