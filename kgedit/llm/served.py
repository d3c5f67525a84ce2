"""A model that is served elsewhere, as far as it is known here: tokenizer and configuration, no weights."""

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
        served_at: What serves it.
        files: Digest of its weight files, where it is served from a folder of this machine; "" for a server, which
            does not say what weights it has.
    """

    served_at: str = ""
    files: str = ""

    @cached_property
    def fingerprint(self) -> str:
        """Digest of the names that it is served under, its weight files if they are known, and its tokenizer."""
        served = f"served {self.served_at} {self.name} {self.revision} {self.files}"
        return joined_digest((served, tokenizer_digest(self.tokenizer)))

    @property
    def device(self) -> torch.device:
        """Where vectors of questions are computed: the model itself is not here."""
        return torch.device("cpu")


def describe_model(name: str, *, served_at: str, weights_here: bool = False) -> ServedModel:
    """What is known of a model without loading it.

    Args:
        name: A folder, or a name on the hub, whose tokenizer and configuration can be had here; the server must have
            the model under the same name.
        served_at: The backend and its address.
        weights_here: Whether the backend reads the weights from `name`, so that another model in the same folder is
            another model.

    Raises:
        ModelError: if tokenizer or configuration cannot be found.
    """
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(name)
        config = AutoConfig.from_pretrained(name)
    except (OSError, ValueError, KeyError) as error:
        raise ModelError(
            f"The tokenizer and configuration of '{name}' cannot be found here. A served model needs both, to word "
            "prompts as it was taught: give a folder that has them, or a name on the hub. "
            f"({str(error).splitlines()[0]})"
        ) from error
    check_places_are_known(tokenizer, name)
    with torch.device("meta"):
        module = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
    revision = getattr(config, "_commit_hash", None) or ""
    files = folder_digest(Path(name)) if weights_here and Path(name).is_dir() else ""
    return ServedModel(name, revision, module, tokenizer, served_at=served_at, files=files)
