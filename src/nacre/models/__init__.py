"""The zoo: every model of the paper's table behind one call. A file of this folder is registered by being here."""

import importlib
import pkgutil

from nacre.models._base import SequenceModel as SequenceModel
from nacre.models._base import Steps as Steps
from nacre.models._info import ModelInfo as ModelInfo
from nacre.models._registry import create as create
from nacre.models._registry import list_models as list_models
from nacre.models._registry import model_info as model_info
from nacre.models._registry import model_options as model_options
from nacre.models._search_space import Choice as Choice
from nacre.models._search_space import Real as Real
from nacre.models._search_space import Whole as Whole

for _module in pkgutil.iter_modules(__path__):
    if not _module.name.startswith("_"):
        importlib.import_module(f"{__name__}.{_module.name}")
