"""Writes the table of memory in docs/gpu.md: what each method needs beside the weights of an 8B model.

    python docs/gpu_memory.py

Nothing of that size is allocated: the model is on torch's "meta" device, where tensors have shapes and no content. What
a method holds is computed from the shapes; a test counts the bytes that each really holds on a small model.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import transformers

from kgedit.editing import METHODS
from kgedit.editing.gradient_transform.hypernetwork import Hypernetworks
from kgedit.editing.hparams.settings import read_settings
from kgedit.editing.locate_then_edit.closed_form import AT_ONCE
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.surgery.layers import choose_matrices, mlp_matrices, parse_layers
from kgedit.llm.surgery.structure import is_linear, is_norm

FILE = Path(__file__).parent / "gpu.md"

LLAMA_3_8B = {
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
}
TOKENS = 64
"""Of a prompt with its answer."""


@dataclass(frozen=True)
class Needs:
    """Bytes beside the model's own weights.

    Attributes:
        held: From the first edit on.
        step: More while an edit is computed.
        trains_from: Lowest block that gradients pass; None where none do.
        each: More for each edit.
    """

    held: int
    step: int = 0
    trains_from: int | None = None
    each: int = 0


def _fine_tuning(model: LanguageModel, own: Any) -> Needs:
    matrix = _down(model, own.layer)
    before = 8 * matrix if getattr(own, "norm", None) else 0  # the matrix before, and one bound of the change
    return Needs(4 * matrix, 12 * matrix + before, own.layer)  # Adam's two moments and the gradient


def _crispedit(model: LanguageModel, own: Any) -> Needs:
    layers = parse_layers(own.layers)
    down = model.blocks[layers[0]].down
    matrix, squares = _down(model, layers[0]), down.in_width**2 + down.out_width**2
    each = (
        4 * matrix + (8 + 4) * squares + matrix
    )  # the matrix; factors and at most their eigenvectors; which are closed
    # Gradient, Adam and the matrix before, or before that eigenvectors, their copies and all products of eigenvalues of
    # one layer, or while eigenvectors are found what `_null_space` counts, in place of those that are held afterwards.
    training, projecting = len(layers) * 16 * matrix, 2 * 8 * squares + 3 * 8 * matrix
    finding = 5 * 8 * down.in_width**2 - 4 * squares
    return Needs(len(layers) * each, max(training, projecting, finding), layers[0])


def _block_layers(model: LanguageModel) -> list[Any]:
    """Linear layers of all blocks."""
    return [part for block in model.blocks for part in block.module.modules() if is_linear(part)]


def _all_linear(model: LanguageModel, *, kept: int = 0, step: int = 8) -> Needs:
    """All linear layers of the blocks in float32.

    Args:
        kept: Bytes kept per parameter from call to call, beside the parameter.
        step: More while an edit is computed, per parameter, beside its gradient: Adam has two moments.
    """
    count = sum(layer.weight.numel() for layer in _block_layers(model))
    return Needs((4 + kept) * count, (4 + step) * count, 0)


def _bitfit(model: LanguageModel, _own: Any) -> Needs:
    layers = _block_layers(model)  # Llama's have no biases: each gets one
    biases = sum(layer.weight.shape[0] for layer in layers)
    narrow = [layer for layer in layers if layer.weight.dtype != torch.float32]  # computed in float32 from then on
    return Needs(4 * biases + 4 * sum(layer.weight.numel() for layer in narrow), 12 * biases, 0)


def _ln_tuning(model: LanguageModel, _own: Any) -> Needs:
    norms = sum(part.weight.numel() for part in model.module.modules() if is_norm(part))
    return Needs(4 * norms, 12 * norms, 0)


def _unke(model: LanguageModel, own: Any) -> Needs:
    count = sum(parameter.numel() for parameter in model.blocks[own.layer].module.parameters())
    return Needs(4 * count, (4 + 8) * count, own.layer)  # gradients; Adam


def _rome(model: LanguageModel, own: Any) -> Needs:
    square = 8 * model.blocks[own.layer].inner_width ** 2
    return Needs(4 * _down(model, own.layer) + square, 2 * square, own.layer)  # C, and C damped


def _closed_form(model: LanguageModel, own: Any, *, remembers: bool = True) -> Needs:
    layers = parse_layers(own.layers)
    width = model.blocks[layers[0]].inner_width
    waiting = 8 * AT_ONCE * width if remembers else 0
    held = sum(4 * _down(model, layer) + 8 * width**2 + waiting for layer in layers)
    return Needs(held, 3 * 8 * width**2, layers[-1])  # C, C damped, its factor; of one layer at a time


def _null_space(model: LanguageModel, own: Any) -> Needs:
    needs = _closed_form(model, own, remembers=getattr(own, "history", False))
    square = 8 * model.blocks[parse_layers(own.layers)[0]].inner_width ** 2
    # Before the first edit, eigenvectors: C, two copies, the vectors, and cuSOLVER's workspace of two squares, which a
    # CPU does not need. One of the six squares is held afterwards. Measured for AnyEdit on an H100: 5.9.
    return replace(needs, step=5 * square)


def _lyaplock(model: LanguageModel, own: Any) -> Needs:
    needs, layers = _closed_form(model, own, remembers=False), parse_layers(own.layers)
    square = 8 * model.blocks[layers[0]].inner_width ** 2
    outputs = 8 * _down(model, layers[0])
    # K_p K_p^T in place of the inverse, and V_p K_p^T. In a step the system, its factors and the damped C, and in the
    # matrix's shape the weights, their drift and the right side.
    return replace(needs, held=needs.held + len(layers) * outputs, step=3 * square + 3 * outputs)


def _adapters(model: LanguageModel, own: Any) -> int:
    modules = [model.module.get_submodule(name) for block in model.blocks for name in block.query_value]
    return sum(4 * own.rank * (layer.in_features + layer.out_features) for layer in modules)


def _lora(model: LanguageModel, own: Any) -> Needs:
    return Needs(2 * _adapters(model, own), 2 * _adapters(model, own), 0)  # weights and gradients; Adam


def _lora_merge(model: LanguageModel, own: Any) -> Needs:
    modules = [model.module.get_submodule(name) for block in model.blocks for name in block.query_value]
    wide = 4 * sum(layer.in_features * layer.out_features for layer in modules)
    return Needs(wide, wide + 4 * _adapters(model, own), 0)


def _grace(model: LanguageModel, own: Any) -> Needs:
    block = model.blocks[own.layer]
    # A key, a value, a radius, and the square of the key's length.
    return Needs(0, 0, own.layer, each=4 * (block.inner_width + block.down.out_width) + 8 + 4)


def _wise(model: LanguageModel, own: Any) -> Needs:
    matrix, copies = _down(model, own.layer), max(1, own.merge_every // own.shard)
    # The copy and its mask; in a step its gradient, the copy before and the part that fades; more copies.
    return Needs(5 * matrix, 12 * matrix + 4 * matrix * (copies - 1), own.layer)


def _memoir(model: LanguageModel, own: Any) -> Needs:
    matrix, inputs = _down(model, own.layer), model.blocks[own.layer].inner_width
    columns = round(own.share * inputs) * matrix // inputs
    # A mask has a byte for each input; the columns of a mask before a step, in it, their gradient, and the change.
    return Needs(4 * matrix + (8 + 4) * inputs, 4 * 4 * columns, own.layer, each=inputs)


def _ultraedit(model: LanguageModel, own: Any) -> Needs:
    matrices = choose_matrices(model, own.layers, own.matrices)
    widths = [matrix.shape for matrix in matrices]
    held = sum(4 * inputs * outputs for inputs, outputs in widths)
    held += sum(2 * 8 * (inputs + outputs) for inputs, outputs in set(widths))
    return Needs(held, 8 * max(inputs * outputs for inputs, outputs in widths), min(one.block for one in matrices))


def _stableedit(model: LanguageModel, own: Any) -> Needs:
    matrices = choose_matrices(model, own.layers, own.matrices)
    needs, shapes = _ultraedit(model, own), [matrix.shape for matrix in matrices]
    warmed = sum(4 * inputs * outputs for inputs, outputs in shapes)
    # As they are, and as the warm-up left them; means and squares are in `needs` once.
    scatter = sum(2 * 8 * (outputs**2 + outputs) + 2 * 8 * (inputs + outputs) for inputs, outputs in set(shapes))
    return replace(needs, held=needs.held + warmed + scatter)


def _mend(model: LanguageModel, own: Any) -> Needs:
    depth = len(model.blocks)
    matrices = mlp_matrices(model, list(range(depth - own.blocks, depth)), own.matrices)
    shapes = [matrix.shape for matrix in matrices]
    with torch.device("meta"):
        network = Hypernetworks(shapes, rank=own.rank, learning_rate=own.edit_rate)
    trained = sum(4 * parameter.numel() for parameter in network.parameters())
    edited = sum(4 * inputs * outputs for inputs, outputs in shapes)
    statistics = sum(2 * 8 * (inputs + outputs) for inputs, outputs in shapes)
    largest = max(4 * inputs * outputs for inputs, outputs in shapes)
    # Adam of the networks' training, or later the updates of all matrices, one of them as product and sum.
    return Needs(2 * trained + edited + statistics, max(2 * trained, edited + 2 * largest), depth - own.blocks)


NEEDS: dict[str, Callable[[LanguageModel, Any], Needs]] = {
    "ft": _fine_tuning,
    "ft_l": _fine_tuning,
    "ft_m": _fine_tuning,
    "locft_bf": _fine_tuning,
    "crispedit": _crispedit,
    "galore": lambda model, _: _all_linear(model, step=0),  # its moments have `rank` rows or columns
    "bitfit": _bitfit,
    "ln_tuning": _ln_tuning,
    "ewc": lambda model, _: _all_linear(model, kept=8),  # Fisher information and anchor
    # Importance and anchor; Adam, the path integral, gradient and value before a step, and before the call.
    "si": lambda model, _: _all_linear(model, kept=8, step=8 + 4 + 8 + 4),
    "rome": _rome,
    "r_rome": _rome,
    "c_rome": _rome,
    "memit": lambda model, own: _closed_form(model, own, remembers=own.history),
    "alphaedit": _null_space,
    "anyedit": _null_space,
    "unke": _unke,
    "lyaplock": _lyaplock,
    "encore": _closed_form,
    "rlsedit": _closed_form,
    "lora": _lora,
    "lora_merge": _lora_merge,
    "grace": _grace,
    "memoir": _memoir,
    "wise": _wise,
    "ultraedit": _ultraedit,
    "stableedit": _stableedit,
    "mend": _mend,
}


def needs_of(method: str, model: LanguageModel, given: dict[str, Any] | None = None) -> Needs | None:
    """What a method needs on a model, with the settings that are published for it, or the defaults; None if unknown."""
    if not METHODS[method].capabilities.changes_model:
        return Needs(0)  # its facts are in main memory
    if method not in NEEDS:
        return None
    settings, problems = read_settings(METHODS[method].settings_type, given or {}, method=method)
    assert settings is not None, problems
    return NEEDS[method](model, settings.resolve(model).settings)


@contextmanager
def without_content() -> Iterator[None]:
    """Let transformers run on the meta device: it would look whether several texts are packed in a row."""
    with mock.patch("transformers.masking_utils.find_packed_sequence_indices", return_value=None):
        yield


def large_model() -> LanguageModel:
    """Llama 3 8B in bfloat16 without content."""
    with torch.device("meta"):
        module = transformers.LlamaForCausalLM(transformers.LlamaConfig(**LLAMA_3_8B)).to(torch.bfloat16)
    return LanguageModel("llama-3-8b", "", module.eval().requires_grad_(False), tokenizer=None)


def activations(model: LanguageModel, lowest: int, *, rows: int = 1) -> int:
    """Bytes that autograd keeps for prompts of `TOKENS` tokens where gradients pass the blocks from `lowest` on."""
    kept: dict[int, int] = {}
    own = {parameter.untyped_storage()._cdata for parameter in model.module.parameters()}

    def note(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in own:
            kept[storage._cdata] = storage.nbytes()
        return tensor

    def begin(_: Any, inputs: tuple[torch.Tensor, ...], kwargs: dict[str, Any]) -> Any:
        if inputs:
            return (inputs[0].detach().requires_grad_(), *inputs[1:]), kwargs
        return inputs, {**kwargs, "hidden_states": kwargs["hidden_states"].detach().requires_grad_()}

    handle = model.blocks[lowest].module.register_forward_pre_hook(begin, with_kwargs=True)
    ids = torch.zeros((rows, TOKENS), dtype=torch.long, device=model.device)
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        model.module(ids, use_cache=False)
    handle.remove()
    return sum(kept.values())


def table() -> str:
    """Of all methods, those that need least first."""
    model, rows, unknown = large_model(), [], []
    with without_content():
        kept = functools.cache(functools.partial(activations, model))  # several methods begin at the same block
        for method in METHODS:
            if (needs := needs_of(method, model)) is None:
                unknown.append(f"`{method}`")
                continue
            row = kept(needs.trains_from) if needs.trains_from is not None else 0
            rows.append((needs.held + needs.step + row, method, needs, row))
    lines = [
        "| method | held from the first edit on, GiB | more in a step, GiB | more for each prompt trained on, GiB |",
        "| :-- | --: | --: | --: |",
    ]
    for _, method, needs, row in sorted(rows):
        each = f"{needs.each / 2**10:.3g} KiB for each edit" if needs.each else ""
        held = " and ".join(filter(None, (_gib(needs.held) if needs.held or not each else "", each)))
        lines.append(f"| `{method}` | {held} | {_gib(needs.step)} | {_gib(row)} |")
    if unknown:
        lines += ["", f"Not computed: {', '.join(unknown)}."]
    weights = sum(2 * parameter.numel() for parameter in model.module.parameters())
    config = model.module.config
    cache = 2 * 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim * 1000
    return "\n".join(
        [*lines, "", f"Weights: {_gib(weights)} GiB. Keys and values: {_gib(cache)} GiB per 1,000 tokens."]
    )


def _gib(count: int) -> str:
    return f"{count / 2**30:.2f}" if count else "–"


def _down(model: LanguageModel, layer: int) -> int:
    down = model.blocks[layer].down
    return down.in_width * down.out_width


def with_section(text: str, script: str, section: str) -> str:
    """The page with another section in place of what a script wrote before."""
    begin, end = f"<!-- written by docs/{script} -->", "<!-- end -->"
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n{section}\n{end}{after}"


def write(script: str, section: str) -> None:
    """Put a script's section into the page."""
    FILE.write_text(with_section(FILE.read_text(encoding="utf-8"), script, section), encoding="utf-8")


if __name__ == "__main__":
    write("gpu_memory.py", table())
