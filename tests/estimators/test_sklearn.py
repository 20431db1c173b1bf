"""scikit-learn's own tools around the estimators: clone, Pipeline, GridSearchCV, cross_val_score, its checks."""

import re
from unittest import SkipTest

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_checks as checks

import nacre
from support.estimators import classifier, regressor, waves
from support.pages import DOCS

pytestmark = [
    pytest.mark.filterwarnings("ignore:.* does not beat the control", "ignore:.* lies far outside"),
    pytest.mark.filterwarnings("ignore:.*:sklearn.exceptions.SkipTestWarning"),
]
X, TIME, Y = waves(24)
WHO = np.arange(24) // 2
APPLICABLE = [  # those of scikit-learn's check_estimator that fit no flat table of numbers
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_get_params_invariance",
    "check_set_params",
    "check_estimator_tags_renamed",
    "check_valid_tag_types",
]


NOT_APPLICABLE = {  # docs/estimators.md says why
    "check_array_api_input",
    "check_classifier_data_not_an_array",
    "check_classifiers_regression_target",
    "check_classifiers_train",
    "check_complex_data",
    "check_dtype_object",
    "check_estimator_sparse_array",
    "check_estimator_sparse_matrix",
    "check_estimators_empty_data_messages",
    "check_estimators_nan_inf",
    "check_fit2d_1sample",
    "check_fit2d_predict1d",
    "check_n_features_in",
    "check_n_features_in_after_fitting",
    "check_regressor_data_not_an_array",
    "check_regressors_train",
    "check_requires_y_none",
    "check_supervised_y_2d",
}


@pytest.mark.deep
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("made", [classifier, regressor])
def test_all_checks_of_scikit_learn_but_those_of_the_page(made):
    failed, passed = set(), 0
    for estimator, check in checks.estimator_checks_generator(made(max_steps=1, d_model=4), legacy=True):
        try:
            check(estimator)
            passed += 1
        except (AssertionError, ValueError, TypeError, SkipTest):
            failed.add(check.func.__name__)
    assert failed <= NOT_APPLICABLE
    assert passed > 30


def test_the_page_lists_the_checks_that_do_not_apply():
    page = (DOCS / "estimators.md").read_text()
    assert set(re.findall(r"`(check_\w+)`", page)) - {"check_estimator"} == NOT_APPLICABLE


@pytest.mark.parametrize("estimator", [nacre.Classifier(), nacre.Regressor(), nacre.Forecaster()])
@pytest.mark.parametrize("name", APPLICABLE)
def test_checks_of_scikit_learn(name, estimator):
    if name == "check_parameters_default_constructible":
        checks.check_parameters_default_constructible(type(estimator).__name__, estimator)
    else:
        getattr(checks, name)(type(estimator).__name__, estimator)


def test_clone_and_parameters():
    one = classifier(columns={"features": ["a", "b"]}).fit(X, Y, time=TIME)
    other = clone(one)
    assert other.get_params() == one.get_params()
    assert not hasattr(other, "trained_")
    assert other.set_params(max_steps=2).max_steps == 2
    assert list(one.feature_names_in_) == ["a", "b"]
    assert is_classifier(one)
    assert is_regressor(regressor())
    again = clone(one).fit(X, Y, time=TIME)
    assert (again.predict_proba(X, time=TIME) == one.predict_proba(X, time=TIME)).all()


def test_a_pipeline():
    scale = FunctionTransformer(lambda sequences: [10 * x for x in sequences])
    with config_context(enable_metadata_routing=True):
        last = classifier().set_fit_request(time=True, groups=True).set_predict_request(time=True)
        pipeline = make_pipeline(scale, last.set_score_request(time=True))
        pipeline.fit(X, Y, time=TIME, groups=WHO)
        found = pipeline.predict(X, time=TIME)
        assert pipeline.score(X, Y, time=TIME) == (found == Y).mean()
    direct = classifier().fit([10 * x for x in X], Y, time=TIME, groups=WHO)
    assert (direct.predict([10 * x for x in X], time=TIME) == found).all()


class Watched(nacre.Classifier):
    """A classifier that notes which stamps and groups reach it."""

    seen: list = []  # noqa: RUF012

    def fit(self, X, y, *, time=None, groups=None, validation=None):
        Watched.seen.append({*groups})
        assert [len(t) for t in time] == [len(x) for x in X]
        return super().fit(X, y, time=time, groups=groups, validation=validation)


@pytest.mark.slow
def test_grid_search_and_cross_validation_keep_groups_and_stamps_together():
    Watched.seen.clear()
    with config_context(enable_metadata_routing=True):
        clf = Watched("cfc-fc", max_steps=2, num_heads=2, random_state=0)
        clf.set_fit_request(time=True, groups=True).set_score_request(time=True)
        folds = GroupKFold(2)
        search = GridSearchCV(clf, {"d_model": [4, 8]}, cv=folds, error_score="raise")
        search.fit(X, Y, time=TIME, groups=WHO)
        assert search.best_params_["d_model"] in (4, 8)
        assert len(search.cv_results_["params"]) == 2
        parts = Watched.seen[:4]
        assert all(len(part) == 6 for part in parts)  # half of the twelve groups, whole
        assert parts[0] & parts[1] == set()
        clf.set_params(d_model=4)
        scores = cross_val_score(clf, X, Y, cv=folds, params={"time": TIME, "groups": WHO}, error_score="raise")
    assert scores.shape == (2,)
