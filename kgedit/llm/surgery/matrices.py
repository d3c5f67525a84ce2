"""Parameters changed by an editor, and weights that accelerate keeps elsewhere until a forward pass (`--max-memory`).

An edited parameter is kept in at least float32 during editing, and restored bit for bit. Between passes an offloaded
one is on torch's meta device, with a shape but no values; the hook of its layer has access to the values. A layer
changed by an editor remains loaded from then on.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from kgedit.llm.devices import in_float64


class EditedParameter:
    """The weight or the bias of one layer: the model's own until the first edit, then a copy in float32 at least.

    A small update added to a bfloat16 weight is rounded away (2^-8 relative), hence the wider copy. A layer computes in
    one format, so in a narrower model its other parameter is copied too, and its input and output are cast. The model's
    own parameters are never modified.

    Args:
        layer: A linear layer or a norm; if its weight is offloaded, it remains loaded from now on.
        name: "weight" or "bias"; a linear layer without a bias gets one of zeros at the first edit.

    Attributes:
        wide: Number format of the copy.
    """

    def __init__(self, layer: Any, name: str) -> None:
        keep_loaded(layer)
        self._layer: Any = layer
        self._name = name
        self._originals: dict[str, nn.Parameter | None] = {
            own: getattr(layer, own) for own in ("weight", "bias") if hasattr(layer, own)
        }
        self._handles: list[Any] = []
        self.wide = torch.promote_types(layer.weight.dtype, torch.float32)

    @property
    def before(self) -> torch.Tensor:
        """The parameter before the first edit, in float32 at least."""
        original = self._originals[self._name]
        if original is None:
            weight = self._layer.weight
            outputs = weight.shape[1 if isinstance(self._layer, Conv1D) else 0]
            return torch.zeros(outputs, dtype=self.wide, device=weight.device)
        return original.detach().to(self.wide)

    @property
    def is_added(self) -> bool:
        """Whether the unedited model has no such parameter."""
        return self._originals[self._name] is None

    @property
    def value(self) -> nn.Parameter:
        """The parameter that the model currently uses; frozen zeros if it has none yet."""
        value: nn.Parameter | None = getattr(self._layer, self._name)
        return nn.Parameter(self.before, requires_grad=False) if value is None else value

    def editable(self) -> nn.Parameter:
        """The wide copy, created at the first call, to be trained or overwritten."""
        if getattr(self._layer, self._name) is self._originals[self._name]:
            setattr(self._layer, self._name, nn.Parameter(self.before.clone(), requires_grad=False))
            self._widen()
        return self.value

    def _widen(self) -> None:
        """Compute the whole layer in the copy's format."""
        weight = self._originals["weight"]
        narrow, wide = self.wide if weight is None else weight.dtype, self.wide
        if narrow == wide:
            return
        for own, original in self._originals.items():
            if original is not None and getattr(self._layer, own) is original:
                setattr(self._layer, own, nn.Parameter(original.detach().to(wide), requires_grad=False))
        self._handles = [
            self._layer.register_forward_pre_hook(lambda _, inputs: (inputs[0].to(wide), *inputs[1:])),
            self._layer.register_forward_hook(lambda _, __, output: output.to(narrow)),
        ]

    def write(self, value: torch.Tensor) -> None:
        """Write values into the model."""
        with torch.no_grad():
            self.editable().copy_(value)

    def restore(self) -> None:
        """Restore the original parameters."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        for own, original in self._originals.items():
            setattr(self._layer, own, original)


class EditedMatrix(EditedParameter):
    """The weight of one linear layer.

    Args:
        layer: nn.Linear or Conv1D.
    """

    def __init__(self, layer: Any) -> None:
        super().__init__(layer, "weight")

    @property
    def weight(self) -> nn.Parameter:
        """The matrix that the model currently uses."""
        return self.value

    @contextmanager
    def original(self) -> Iterator[None]:
        """Context with the matrix from before the first edit."""
        used = self._layer.weight
        if used is not self._originals["weight"]:
            self._layer.weight = nn.Parameter(self.before, requires_grad=False)
        try:
            yield
        finally:
            self._layer.weight = used

    def add(self, update: torch.Tensor) -> None:
        """Add an update of shape inputs x outputs, transposed if the layer stores its weight transposed."""
        with torch.no_grad():
            weight = self.editable()
            weight.add_((update if isinstance(self._layer, Conv1D) else update.T).to(weight))

    def products(self, keys: torch.Tensor) -> torch.Tensor:
        """Product of the current matrix with inputs, without the bias: outputs x columns, in float64, on their device.

        Args:
            keys: Inputs x columns.
        """
        return self.outputs_by_inputs(keys.device) @ keys

    def outputs_by_inputs(self, device: torch.device) -> torch.Tensor:
        """The current matrix, without the bias: outputs x inputs, in float64."""
        weight = in_float64(self.weight.detach().to(device))
        return weight.T if isinstance(self._layer, Conv1D) else weight


def input_device(module: Any) -> torch.device:
    """Device on which a model expects token ids."""
    own: torch.device = module.device
    if own.type != "meta":
        return own
    hook = _offloading_hook(module.get_input_embeddings())
    return own if hook is None else torch.device(hook.execution_device)


def layer_device(layer: nn.Module) -> torch.device:
    """Device on which a layer computes, whether or not its weight is loaded."""
    hook = _offloading_hook(layer)
    weight: torch.Tensor = layer.weight  # type: ignore[assignment]
    return weight.device if hook is None else torch.device(hook.execution_device)


def keep_loaded(layer: nn.Module) -> None:
    """Keep an offloaded layer's parameters loaded on its device; no effect on other layers."""
    hook = _offloading_hook(layer)
    if hook is not None:
        hook.pre_forward(layer)
        hook.offload = False


def named_values(module: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Iterate over a model's state dict; offloaded entries are loaded into main memory one by one."""
    for name, tensor in module.state_dict().items():
        if tensor.device.type != "meta":
            yield name, tensor
            continue
        owner, _, own_name = name.rpartition(".")
        hook = _offloading_hook(module.get_submodule(owner))
        yield name, tensor if hook is None else hook.weights_map[own_name]


def _offloading_hook(layer: nn.Module) -> Any:
    """Hook of accelerate that loads a layer's parameters; None if they are always loaded."""
    hook = getattr(layer, "_hf_hook", None)
    for one in getattr(hook, "hooks", (hook,)):
        if getattr(one, "offload", False):
            return one
    return None
