"""Access to positions (row, column) of a layer's input and output, also if a model (OPT) flattens both into one."""

from __future__ import annotations

import torch


def by_row(tensor: torch.Tensor, rows: int) -> torch.Tensor:
    """Reshape a tensor to rows x length x width."""
    return tensor.reshape(rows, -1, tensor.shape[-1])


def at(tensor: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    """Select one position of each row: rows x width, on the tensor's device."""
    rows = torch.arange(len(columns), device=tensor.device)
    found: torch.Tensor = by_row(tensor, len(columns))[rows, columns.to(tensor.device)]
    return found


def put(
    output: torch.Tensor, values: torch.Tensor, *, rows: torch.Tensor, columns: torch.Tensor, count: int
) -> torch.Tensor:
    """Return a copy of a layer's output with values replaced at some positions; the rest is bitwise unchanged.

    Args:
        values: One vector per position, of the output's width.
        rows: Row of each position.
        columns: Column of each position.
        count: Number of rows of the whole batch.
    """
    written = by_row(output, count).clone()
    written[rows.to(output.device), columns.to(output.device)] = values.to(output)
    return written.reshape(output.shape)
