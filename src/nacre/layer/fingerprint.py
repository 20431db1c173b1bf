"""`Fingerprinted`: a module whose state dict says to which synapses its weights belong."""

import hashlib
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

KEY = "_extra_state"  # what torch calls it in a state dict
_BYTES = 16
_UNKNOWN = (
    "the state dict does not say to which wiring its weights belong (no key ..._extra_state): it was saved before "
    "nacre wrote fingerprints, or the key was removed. Where you know that the wiring is the same, "
    "load_state_dict(..., strict=False) takes the weights unchecked; nacre.load opens old directories as they are"
)


class Fingerprinted(nn.Module):
    """A module with a weight for each synapse of some tables.

    Weights of two wirings often have the same shapes, and would give wrong outputs without a word. So the state
    dict holds a checksum of the tables, and `load_state_dict` refuses that of others, strict or not. It is an
    extra state, neither parameter nor buffer: it does not count, moves to no device, and is not converted,
    averaged or spread over processes.

    Example:
        >>> Fingerprinted(np.array([[1, 0, -1]])).state_dict()["_extra_state"].shape
        torch.Size([16])
    """

    def __init__(self, *tables: np.ndarray) -> None:
        super().__init__()
        digest = hashlib.sha256()
        for table in tables:  # of -1, 0 and 1
            digest.update(repr(table.shape).encode() + table.astype(np.int8).tobytes())
        self._fingerprint = digest.digest()[:_BYTES]

    def get_extra_state(self) -> Tensor:
        """The fingerprint: int64 [16], a new tensor at each call.

        Numbers up to 255 stay what they are if somebody makes a state dict float16 or averages several.
        """
        return torch.tensor(list(self._fingerprint), device="cpu")

    def set_extra_state(self, state: Tensor) -> None:
        """Nothing to set: the fingerprint is compared, in `_load_from_state_dict`."""

    def _load_from_state_dict(
        self,
        state_dict: Mapping[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        lists = missing_keys, unexpected_keys, error_msgs
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, *lists)
        name = prefix.rstrip(".") or type(self).__name__
        if prefix + KEY in state_dict:
            if not self._is_mine(state_dict[prefix + KEY]):
                error_msgs.append(
                    f"the weights of {name} belong to another wiring; make the module with the wiring, sparsity "
                    "and seed of the one that was saved"
                )
        elif any(key.startswith(prefix) for key in state_dict):
            # Torch adds the missing key to its errors where the caller is strict; here nobody knows whether it is.
            warnings.warn(_UNKNOWN, stacklevel=2)

    def _is_mine(self, state: object) -> bool:
        if not isinstance(state, Tensor) or state.shape != (_BYTES,) or state.is_complex():
            return False
        return state.double().round().tolist() == list(self._fingerprint)
