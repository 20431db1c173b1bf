"""What torch's transforms of a program do not allow in it."""

import torch
from torch._C._functorch import TransformType, get_interpreter_stack, maybe_current_level


def values_are_hidden() -> bool:
    """Whether nothing may depend on values: while torch compiles or exports, and inside `torch.func.vmap`."""
    if torch.compiler.is_compiling():
        return True
    return any(level.key() == TransformType.Vmap for level in get_interpreter_stack() or ())


def inside_torch_func() -> bool:
    """Whether a transform of `torch.func` runs, which takes PyTorch's own operators only, and no checkpoints."""
    return maybe_current_level() is not None
