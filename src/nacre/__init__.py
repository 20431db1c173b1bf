"""Continuous-time attention wired like the nervous system of C. elegans."""

import typing as _typing

import nacre._util.wait_policy  # noqa: F401  first: torch reads the environment when it is imported

# isort: split
from nacre import data as data
from nacre import functional as functional
from nacre import inspect as inspect
from nacre import models as models
from nacre import nn as nn
from nacre._version import __version__ as __version__
from nacre.certificates.bounds import certify as certify
from nacre.certificates.certificate import Certificate as Certificate
from nacre.deploy.export import export as export
from nacre.io import load as load
from nacre.io import save as save
from nacre.layer.attention import NAC as NAC
from nacre.layer.backbone import Backbone as Backbone
from nacre.layer.circuit import NCPCell as NCPCell
from nacre.layer.config import NACConfig as NACConfig
from nacre.layer.encoder import NACEncoder as NACEncoder
from nacre.layer.sensory import SensoryGate as SensoryGate
from nacre.layer.streaming.state import StreamState as StreamState
from nacre.layer.trace import Trace as Trace
from nacre.models._check import check_model as check_model
from nacre.models._info import ModelInfo as ModelInfo
from nacre.models._recurrent_state import RecurrentState as RecurrentState
from nacre.models._registry import create as create
from nacre.models._registry import list_models as list_models
from nacre.models._registry import model_info as model_info
from nacre.tasks.network import TaskNetwork as TaskNetwork
from nacre.wiring.wiring import Wiring as Wiring

if _typing.TYPE_CHECKING:
    from nacre.estimators.classifier import Classifier as Classifier
    from nacre.estimators.forecaster import Forecaster as Forecaster
    from nacre.estimators.regressor import Regressor as Regressor

_ESTIMATORS = {"Classifier": "classifier", "Forecaster": "forecaster", "Regressor": "regressor"}


def __getattr__(name: str) -> object:
    """The estimators, imported when they are asked for: they need the extra `train`."""
    if name not in _ESTIMATORS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    try:
        return getattr(import_module(f"nacre.estimators.{_ESTIMATORS[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("nacre"):
            raise
        from nacre._util.extras import how_to_install

        raise ModuleNotFoundError(f"nacre.{name} needs {error.name}; {how_to_install('train')}") from None
