"""The zoo: every model of the paper's table behind one call."""

from nacre.models import cfc as cfc
from nacre.models import cfc_ncp as cfc_ncp
from nacre.models import contiformer as contiformer
from nacre.models import ct_rnn as ct_rnn
from nacre.models import cta as cta
from nacre.models import deepstate as deepstate
from nacre.models import gru_ode as gru_ode
from nacre.models import linear_attention as linear_attention
from nacre.models import ltc as ltc
from nacre.models import mmrnn as mmrnn
from nacre.models import mtan as mtan
from nacre.models import nac as nac
from nacre.models import odeformer as odeformer
from nacre.models import ot_transformer as ot_transformer
from nacre.models import pde_attention as pde_attention
from nacre.models import performer as performer
from nacre.models import phased_lstm as phased_lstm
from nacre.models import s4 as s4
from nacre.models import sdpa as sdpa
from nacre.models._registry import ModelInfo as ModelInfo
from nacre.models._registry import create as create
from nacre.models._registry import list_models as list_models
from nacre.models._registry import model_info as model_info
from nacre.models._registry import model_options as model_options
