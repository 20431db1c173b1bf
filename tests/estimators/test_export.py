"""What an estimator exports answers alike without PyTorch, and knows what it is."""

import numpy as np
import pytest

from nacre import Classifier
from nacre_runtime import Model
from support.estimators import SMALL, waves


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.* does not beat the control")
def test_an_exported_classifier_gives_its_probabilities(tmp_path):
    x, time, y = waves()
    clf = Classifier("sdpa", missing="error", columns={"features": ["wave", "slope"]}, **SMALL).fit(
        x, y, time=time
    )
    exported = clf.export(tmp_path / "waves.onnx")
    assert (exported.path, exported.step_path) == (tmp_path / "waves.onnx", None)
    assert [path.name for path in tmp_path.iterdir()] == ["waves.onnx"]
    model = Model.load(exported.path)
    assert (model.facts["classes"], model.facts["features"]) == (["other", "same"], ["wave", "slope"])
    np.testing.assert_allclose(model.predict(x, time), clf.predict_proba(x, time=time), atol=1e-5)
