"""Errors of numbers in the units in which the paper's table has them."""

from torch import Tensor

from nacre.data.dataset import Dataset, Kind

RAW = "raw mse"  # squared errors in the data's units, as the paper has steering
MINMAX = "minmax mse"  # squared errors of values that go from 0 to 1 in training, as it has forecasts


def paper_metrics(data: Dataset, known: Tensor, prediction: Tensor, truth: Tensor) -> dict[str, float]:
    """`raw mse` and, for forecasts, `minmax mse`; nothing for classes and labels.

    Args:
        data: The data set.
        known: [m] sequences outside the test part, whose rows say how far the forecast column goes.
        prediction: [n, D] in the data's units.
        truth: [n, D] likewise.

    Example:
        >>> from nacre.data import from_arrays
        >>> data = from_arrays([[0.0], [1.0]], [0.5, 1.5])
        >>> paper_metrics(data, torch.tensor([0]), torch.tensor([[3.0]]), torch.tensor([[1.0]]))
        {'raw mse': 4.0}
    """
    if not data.kind.has_numbers:
        return {}
    error = (prediction.double() - truth.double())[~truth.isnan()]
    found = {RAW: error.square().mean().item()}
    if data.kind is Kind.FORECASTING and data.target_column is not None:
        column = data.values[data.rows(known), data.target_column].double()
        column = column[~column.isnan()]
        reach = (column.max() - column.min()).item() if len(column) else 0.0
        if reach > 0:
            found[MINMAX] = found[RAW] / reach**2
    return found
