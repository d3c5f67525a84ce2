"""Network of MEND: it transforms the rank-one factors of a gradient into those of a better edit.

One network serves all matrices of one shape; each has its own statistics, scales, shifts and learning rate. Initially
they pass the normalized factors through unchanged, so training starts from plain gradient descent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import nn

from kgedit.editing.gradient_transform.running_statistics import RunningStatistics
from kgedit.llm.devices import float64_device


class Hypernetworks(nn.Module):
    """One network for each shape among the matrices.

    Args:
        shapes: Shapes of the matrices: inputs and outputs.
        rank: Rank of every network's layers.
        learning_rate: Initial learning rate of every matrix.
    """

    def __init__(self, shapes: Sequence[tuple[int, int]], *, rank: int, learning_rate: float) -> None:
        super().__init__()
        kinds = list(dict.fromkeys(shapes))
        self._at = [(kinds.index(shape), shapes[:index].count(shape)) for index, shape in enumerate(shapes)]
        self.networks = nn.ModuleList(
            Hypernetwork(*kind, matrices=shapes.count(kind), rank=rank, learning_rate=learning_rate) for kind in kinds
        )

    def forward(self, vectors: torch.Tensor, matrix: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Like `Hypernetwork.forward`, for the matrix with this index."""
        network, own = self._at[matrix]
        parts: tuple[torch.Tensor, torch.Tensor] = self.networks[network](vectors, own)
        return parts

    def watch(self, vectors: Sequence[torch.Tensor]) -> None:
        """Add each matrix's vectors to its statistics; used only in training."""
        for number, network in enumerate(self._each()):
            network.watch([own for own, (at, _) in zip(vectors, self._at, strict=True) if at == number])

    def content(self) -> dict[str, torch.Tensor]:
        """Weights and statistics of all networks."""
        return {
            f"{number}.{name}": tensor
            for number, network in enumerate(self._each())
            for name, tensor in network.content().items()
        }

    def take(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Load the result of `content`.

        Raises:
            RuntimeError, KeyError: if it came from networks of other shapes.
        """
        for number, network in enumerate(self._each()):
            own = {name.partition(".")[2]: tensor for name, tensor in tensors.items() if name.startswith(f"{number}.")}
            network.take(own)

    def _each(self) -> list[Hypernetwork]:
        return [network for network in self.networks if isinstance(network, Hypernetwork)]


class Hypernetwork(nn.Module):
    """Two low-rank residual layers over the concatenated input and output gradient (MEND, section 3).

    Args:
        inputs: Input width of the matrices.
        outputs: Output width of the matrices.
        matrices: Number of matrices.
        rank: Rank of both layers.
        learning_rate: Initial learning rate of every matrix.
    """

    def __init__(self, inputs: int, outputs: int, *, matrices: int, rank: int, learning_rate: float) -> None:
        super().__init__()
        width = inputs + outputs
        self.inputs = inputs
        self.down = nn.ParameterList([nn.Parameter(torch.randn(width, rank) / width**0.5) for _ in range(2)])
        # Zeros, so that both layers pass their input through at first.
        self.up = nn.ParameterList([nn.Parameter(torch.zeros(rank, width)) for _ in range(2)])
        self.bias = nn.Parameter(torch.zeros(width))
        self.scale = nn.Parameter(torch.ones(2, matrices, width))
        self.shift = nn.Parameter(torch.zeros(2, matrices, width))
        self.log_rate = nn.Parameter(torch.full((matrices,), learning_rate).log())
        self.seen = [RunningStatistics.empty(width, torch.device("cpu")) for _ in range(matrices)]

    def forward(self, vectors: torch.Tensor, matrix: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the inputs and the output gradients of the edit, the latter multiplied by the matrix's learning rate.

        Args:
            vectors: Inputs and output gradients of the original gradient, vectors x (inputs + outputs).
        """
        hidden = self.seen[matrix].normalize(vectors).float().to(vectors.device)
        for layer in range(2):
            changed = hidden @ self.down[layer] @ self.up[layer] + (self.bias if layer == 0 else 0)
            moved = self.scale[layer, matrix] * changed + self.shift[layer, matrix]
            # At 0, the initial value, relu has no gradient, nor has clamp in torch 2.15.
            hidden = hidden + torch.where(moved < 0, 0.0, moved)
        return hidden[:, : self.inputs], hidden[:, self.inputs :] * self.log_rate[matrix].exp()

    def watch(self, vectors: Sequence[torch.Tensor]) -> None:
        """See `Hypernetworks.watch`."""
        if self.seen[0].count == 0:
            self.seen = [RunningStatistics.empty(own.shape[1], own.device) for own in vectors]
        for seen, own in zip(self.seen, vectors, strict=True):
            seen.add(own)

    def content(self) -> dict[str, torch.Tensor]:
        """Weights and statistics."""
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in self.state_dict().items()}
        tensors["seen.count"] = torch.tensor([seen.count for seen in self.seen])
        tensors["seen.mean"] = torch.stack([seen.mean for seen in self.seen]).cpu()
        tensors["seen.squares"] = torch.stack([seen.squares for seen in self.seen]).cpu()
        return tensors

    def take(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Load the result of `content`.

        Raises:
            RuntimeError, KeyError: if it came from a network of another shape.
        """
        self.load_state_dict({name: tensor for name, tensor in tensors.items() if not name.startswith("seen.")})
        device = self.bias.device
        counts, means, squares = (tensors[f"seen.{name}"] for name in ("count", "mean", "squares"))
        self.seen = [
            RunningStatistics(int(count), mean.to(float64_device(device)), own.to(float64_device(device)))
            for count, mean, own in zip(counts, means, squares, strict=True)
        ]
