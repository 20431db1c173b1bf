"""New data outside of what training saw is named, however missing values are told."""

from dataclasses import replace

import pytest
import torch

from nacre.data import from_arrays
from nacre.data.missing import Missing
from nacre.data.tables.gaps import settle
from nacre.train.ranges import far_outside, write_ranges

NAN = torch.nan


def told(missing, *rows):
    """A data set of two sequences of two steps with these rows."""
    whole = from_arrays([[[0.0] * 3] * 2] * 2, [0.5, 1.5], features=["pulse", "heat", "age"])
    return settle(replace(whole, values=torch.tensor(rows), static=(2,)), Missing(missing), known=False)


@pytest.mark.parametrize("missing", ["flags", "events"])
def test_what_is_far_outside_or_absent_is_named_among_what_was_observed(missing, tmp_path):
    learned = told(missing, (1.0, NAN, 50.0), (NAN, 20.0, 50.0), (3.0, 30.0, NAN), (NAN, NAN, NAN))
    write_ranges(tmp_path, learned, torch.tensor([0, 1]))
    assert far_outside(tmp_path, learned) == []
    silent, far = far_outside(
        tmp_path, told(missing, (2.0, NAN, NAN), (NAN, NAN, NAN), (NAN, NAN, NAN), (-7.0, NAN, NAN))
    )
    assert silent == "nothing was observed of 'heat', 'age', which training knew"
    assert far == (
        "'pulse' lies far outside of what training saw, 1 to 3: 1 of 2 values, the farthest is -7, 4 times the "
        "range beyond it"
    )


def test_training_alone_is_what_counts(tmp_path):
    learned = told("flags", (1.0, 0.0, 0.0), (3.0, 0.0, 0.0), (90.0, 0.0, 0.0), (0.0, 0.0, 0.0))
    write_ranges(tmp_path, learned, torch.tensor([0]))
    (line,) = far_outside(tmp_path, learned)
    assert "what training saw, 1 to 3: 2 of 4 values, the farthest is 90" in line
