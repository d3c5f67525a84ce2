"""Matrix products by oneDNN, through operators that torch keeps private.

torch.compile multiplies by these operators, but no public function calls them. Only this module does: if a release of
torch renames them or changes their arguments, `problem` reports it, models multiply by torch's public operator, which
is slower, and `tests/unit/llm/surgery/test_onednn.py` fails.
"""

from __future__ import annotations

from functools import cache

import torch
from torch.nn.functional import linear


def product(inputs: torch.Tensor, matrix: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """Return inputs W^T + bias.

    Args:
        inputs: Shape ... x features; float32, in main memory.
        matrix: W, outputs x features, or the result of `reordered`.
        bias: Shape outputs, or None.
    """
    # The last three arguments are the function applied to the result, its parameters, and its variant: none.
    found: torch.Tensor = torch.ops.mkldnn._linear_pointwise(inputs.contiguous(), matrix, bias, "none", [], "")
    return found


def reordered(matrix: torch.Tensor, rows: int) -> torch.Tensor:
    """Return a copy of a matrix in the memory layout that oneDNN reads fastest for a number of rows of inputs."""
    found: torch.Tensor = torch.ops.mkldnn._reorder_linear_weight(matrix, rows)
    return found


@cache
def problem() -> str | None:
    """Why the operators cannot be used, or None; found by multiplying two small matrices."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return "torch was built without oneDNN"
    numbers = torch.arange(12, dtype=torch.float32, device="cpu")
    inputs, matrix, bias = numbers[:6].view(2, 3), numbers.view(4, 3), numbers[:4]
    expected = linear(inputs, matrix, bias)
    try:
        found = [product(inputs, weight, bias) for weight in (matrix, reordered(matrix, len(inputs)))]
    except (AttributeError, RuntimeError, TypeError) as error:
        return f"torch {torch.__version__} has changed its private operators of oneDNN: {error}"
    if not all(torch.allclose(other, expected) for other in found):
        return f"torch {torch.__version__} multiplies differently by its private operators of oneDNN"
    return None
