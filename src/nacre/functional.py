"""Pure functions: selection of keys, dynamics of logits, and the bounds they obey."""

from nacre.layer.dynamics import convergence_time as convergence_time
from nacre.layer.dynamics import decay_bound as decay_bound
from nacre.layer.dynamics import frozen_error_bound as frozen_error_bound
from nacre.layer.dynamics import logit_sensitivities as logit_sensitivities
from nacre.layer.dynamics import solve_logits as solve_logits
from nacre.layer.dynamics import state_bounds as state_bounds
from nacre.layer.dynamics import time_gate as time_gate
from nacre.layer.dynamics import uniform_decay_bound as uniform_decay_bound
from nacre.layer.selection.choose import all_pairs as all_pairs
from nacre.layer.selection.choose import exact_topk as exact_topk
from nacre.layer.selection.choose import sqrt_topk as sqrt_topk
