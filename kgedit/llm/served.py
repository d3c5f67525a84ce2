"""A model that is served elsewhere: local tokenizer and configuration, no weights."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from kgedit.errors import ModelError
from kgedit.llm.fingerprints import folder_digest, joined_digest, tokenizer_digest
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.token_spans import check_places_are_known


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
        name: A folder or hub name with tokenizer and configuration; the server must serve the model under the same
            name.
        served_at: The backend and its address.
        weights_here: Whether the backend reads the weights from `name`, so that they are part of the fingerprint.

    Raises:
        ModelError: if tokenizer or configuration cannot be found.
    """
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(name)
        config = AutoConfig.from_pretrained(name)
    except (OSError, ValueError, KeyError) as error:
        raise ModelError(
            f"The tokenizer and configuration of '{name}' cannot be found here. A served model needs both, to format "
            "prompts as in its training: give a folder that has them, or a name on the hub. "
            f"({str(error).splitlines()[0]})"
        ) from error
    check_places_are_known(tokenizer, name)
    with torch.device("meta"):
        module = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
    revision = getattr(config, "_commit_hash", None) or ""
    files = folder_digest(Path(name)) if weights_here and Path(name).is_dir() else ""
    return ServedModel(name, revision, module, tokenizer, served_at=served_at, files=files)
