"""Runs EasyEdit's own code in a separate process, for comparison by `editing.py --peer`.

Started by `side_by_side.py`, it reads one JSON request per line and answers with one line. It contains no code of
EasyEdit: its modules are imported from the user's checkout. Two workarounds avoid packages that the text editors do not
use. The `__init__` files of `easyeditor`, `easyeditor.models` and `easyeditor.util`, which import all methods for texts
and images, are replaced by empty packages with the same folders. `matplotlib`, which one module imports without using
it, is replaced by an empty module if missing. Random prefixes, C and the null space are part of the requests and are
stored where EasyEdit caches its own.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
import time
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

ENTRIES = {
    "ft_m": ("ft.ft_main", "apply_ft_to_model", "FTHyperParams"),
    "rome": ("rome.rome_main", "apply_rome_to_model", "ROMEHyperParams"),
    "memit": ("memit.memit_main", "apply_memit_to_model", "MEMITHyperParams"),
    "alphaedit": ("alphaedit.AlphaEdit_main", "apply_AlphaEdit_to_model", "AlphaEditHyperParams"),
    "grace": ("grace.grace_main", "apply_grace_to_model", "GraceHyperParams"),
    "wise": ("wise.wise_main", "apply_wise_to_model", "WISEHyperParams"),
}
"""Module under easyeditor.models, its function and its hyperparameter class, by kgedit's name of the method."""


def prepare_imports(checkout: Path) -> None:
    """Make the checkout importable without its lists of all methods."""
    for name in ("easyeditor", "easyeditor.models", "easyeditor.util"):
        package = types.ModuleType(name)
        package.__path__ = [str(checkout.joinpath(*name.split(".")))]
        sys.modules[name] = package
    if importlib.util.find_spec("matplotlib") is None:
        style = types.ModuleType("matplotlib.style")
        style.context = None  # type: ignore[attr-defined]
        sys.modules |= {"matplotlib": types.ModuleType("matplotlib"), "matplotlib.style": style}


class Peer:
    """A model to which EasyEdit's methods are applied, one request at a time; each request leaves the model unchanged.

    Args:
        folder: Folder of the model, readable by transformers.
        statistics: C of each layer by its number, or None.
    """

    def __init__(self, folder: str, statistics: str | None) -> None:
        from transformers import AutoModelForCausalLM, AutoTokenizer

        self.model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        self.tokenizer.pad_token_id = self.tokenizer.eos_token_id
        self.statistics = load_file(statistics) if statistics else {}
        self.passes = 0
        self.model.get_output_embeddings().register_forward_hook(self._count)

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Edit, measure, record the changes, and undo them.

        Returns:
            CPU seconds of EasyEdit's function, number of forward passes with gradients, and for each edit the share of
            its target tokens that are correct under teacher forcing.
        """
        method = request["method"]
        module_name, function, hparams_name = ENTRIES[method]
        main = importlib.import_module(f"easyeditor.models.{module_name}")
        hparams = getattr(main, hparams_name)(**request["hparams"])
        self.tokenizer.padding_side = "left" if method in ("grace", "wise") else "right"
        self._give(main, request, hparams)
        names = [
            f"{hparams.rewrite_module_tmp.format(layer).removesuffix('.weight')}.weight" for layer in _layers(hparams)
        ]
        before = {name: self.model.get_parameter(name).detach().clone() for name in names}
        self.passes = 0
        torch.manual_seed(request["seed"])
        with _mask_of(request):
            started = time.process_time()
            edited, undo = getattr(main, function)(
                self.model, self.tokenizer, request["requests"], hparams, **request["options"]
            )
            spent = time.process_time() - started
        passes = self.passes
        right = [self._right(edited, own) for own in request["requests"]]
        change = {name: self.model.get_parameter(name).detach() - weight for name, weight in before.items()}
        change |= _memory_of(edited)
        save_file({name: tensor.contiguous() for name, tensor in change.items()}, request["out"])
        for name, weight in before.items():
            self.model.get_parameter(name).data.copy_(weight)
        if callable(undo):
            undo()
        return {"seconds": spent, "passes": passes, "right": right}

    def _give(self, main: Any, request: dict[str, Any], hparams: Any) -> None:
        """Store prefixes and C where EasyEdit looks for those of an earlier call."""
        prefixes = request["prefixes"]
        name = self.model.config._name_or_path.replace("/", "_")
        covariances = {
            (name, hparams.rewrite_module_tmp.format(layer)): self.statistics[str(layer)] for layer in _layers(hparams)
            if str(layer) in self.statistics
        }  # fmt: skip
        method = request["method"]
        if method == "rome":
            main.CONTEXT_TEMPLATES_CACHE = ["{}", *(f"{prefix}. {{}}" for prefix in prefixes)]
            inverses = importlib.import_module("easyeditor.models.rome.compute_u").inv_mom2_cache
            for key, matrix in covariances.items():
                if key not in inverses:
                    inverses[key] = torch.inverse(matrix).float()
        if method in ("memit", "alphaedit"):
            main.CONTEXT_TEMPLATES_CACHE = [["{}"], [f"{prefix}. {{}}" for prefix in prefixes]]
            main.COV_CACHE.update({key: matrix.float() for key, matrix in covariances.items()})
        if method == "wise":
            texts = importlib.import_module("easyeditor.models.wise.utils")
            texts.CONTEXT_TEMPLATES_CACHE = ["{}", *(f"{prefix} {{}}" for prefix in prefixes)]

    def _right(self, edited: Any, request: dict[str, str]) -> float:
        """Share of the target's tokens that are the most likely, each given the correct preceding ones."""
        prompt = self.tokenizer.encode(request["prompt"])
        target = self.tokenizer.encode(f" {request['target_new'].strip()}", add_special_tokens=False)
        ids = torch.tensor([prompt + target])
        with torch.no_grad():
            logits = edited(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
        return float((logits[0, -len(target) - 1 : -1].argmax(-1) == torch.tensor(target)).float().mean())

    def _count(self, *_: Any) -> None:
        self.passes += torch.is_grad_enabled()


def _layers(hparams: Any) -> list[int]:
    return list(getattr(hparams, "layers", []))


def _memory_of(edited: Any) -> dict[str, torch.Tensor]:
    """Content that a method with a side memory stored for its one edit."""
    for module in edited.modules() if isinstance(edited, torch.nn.Module) else ():
        if type(module).__name__ == "GRACEAdapter":
            return {"value": module.values.detach().clone()}
        if type(module).__name__ == "WISEAdapter":
            return {"copy": (module.new_weight - module.original_layer.weight).detach().clone()}
    return {}


@contextmanager
def _mask_of(request: dict[str, Any]) -> Iterator[None]:
    """Sample WISE's mask like kgedit, instead of from numpy's global state."""
    if "mask" not in request:
        yield
        return
    adapter = importlib.import_module("easyeditor.models.wise.WISE").WISEAdapter
    drawn: Callable[..., None] = adapter.generate_activation_mask
    mask = load_file(request["mask"])["mask"].reshape(-1).long()
    adapter.generate_activation_mask = lambda own, _: setattr(own, "weight_mask", mask)
    try:
        yield
    finally:
        adapter.generate_activation_mask = drawn


def main() -> None:
    """Answer requests until the input ends."""
    if len(sys.argv) == 1:
        print(__doc__)
        return
    setting = json.loads(sys.argv[1])
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # EasyEdit's output goes to stderr
    torch.set_num_threads(setting["threads"])
    prepare_imports(Path(setting["checkout"]))
    peer = Peer(setting["model"], setting["statistics"])
    print(json.dumps({"ready": True}), file=replies, flush=True)
    for line in sys.stdin:
        print(json.dumps(peer.answer(json.loads(line))), file=replies, flush=True)


if __name__ == "__main__":
    main()
