"""What the linear control sees of sequences some of whose values are missing."""

import torch
from torch import Tensor

from nacre.data.dataset import Dataset


def summaries_of_observed(data: Dataset, index: Tensor) -> Tensor:
    """[m, 5 F] mean, standard deviation, first and last of the observed values of each feature, and their number.

    NaN, and the number 0, where nothing of a feature was observed. Of rows and of events alike.

    Example:
        >>> from nacre.data import from_arrays
        >>> data = from_arrays([[[1.0], [None], [3.0]], [[None], [None], [5.0]]], [0.5, 1.5], missing="flags")
        >>> summaries_of_observed(data, torch.arange(2)).tolist()
        [[2.0, 1.0, 1.0, 3.0, 2.0], [5.0, 0.0, 5.0, 5.0, 1.0]]
    """
    cell, value = _observed(data, index)  # in the order of time
    size = (len(index), len(data.features))
    count = cell.bincount(minlength=size[0] * size[1])
    mean = cell.bincount(value, len(count)) / count
    variance = cell.bincount((value - mean[cell]).square(), len(count)) / count
    first, last = (torch.full((len(count),), torch.nan, dtype=torch.float64) for _ in range(2))
    place = torch.arange(len(cell))
    begin = torch.full((len(count),), len(cell)).scatter_reduce(0, cell, place, "amin")
    end = torch.full((len(count),), -1).scatter_reduce(0, cell, place, "amax")
    there = count > 0
    first[there], last[there] = value[begin[there]], value[end[there]]
    return torch.cat([part.view(size) for part in (mean, variance.sqrt(), first, last, count.double())], 1)


def _observed(data: Dataset, index: Tensor) -> tuple[Tensor, Tensor]:
    """[k] number of the sequence times F plus that of the feature, and [k] float64 values."""
    batch, features = data.batch(index), len(data.features)
    if data.has_events:
        sequence, step = (~(batch.key_padding_mask | batch.x[..., 1].isnan())).nonzero(as_tuple=True)
        variable, value = batch.x[sequence, step].unbind(-1)
        return sequence * features + variable.long(), value.double()
    seen = ~(batch.key_padding_mask.unsqueeze(-1) | batch.x.isnan())
    sequence, _, column = seen.nonzero(as_tuple=True)
    return sequence * features + column, batch.x[seen].double()


def column_means(tables: list[Tensor]) -> Tensor:
    """[P] means of what is known in tables [m, P]; 0 where nothing is."""
    known = torch.stack([(~table.isnan()).sum(0) for table in tables]).sum(0)
    return torch.stack([table.nansum(0) for table in tables]).sum(0) / known.clamp(min=1)
