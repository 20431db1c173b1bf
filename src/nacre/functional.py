"""Pure functions: selection of keys, dynamics of logits, and the bounds they obey."""

from nacre.dynamics import convergence_time as convergence_time
from nacre.dynamics import decay_bound as decay_bound
from nacre.dynamics import frozen_error_bound as frozen_error_bound
from nacre.dynamics import logit_sensitivities as logit_sensitivities
from nacre.dynamics import solve_logits as solve_logits
from nacre.dynamics import state_bounds as state_bounds
from nacre.dynamics import time_gate as time_gate
from nacre.dynamics import uniform_decay_bound as uniform_decay_bound
from nacre.select import all_pairs as all_pairs
from nacre.select import exact_topk as exact_topk
from nacre.select import sqrt_topk as sqrt_topk
from nacre.select_cluster import cluster_topk as cluster_topk
