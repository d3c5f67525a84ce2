"""A model that is served elsewhere, as far as it is known here: tokenizer and configuration, no weights."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from kgedit.errors import ModelError
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.token_spans import check_places_are_known


@dataclass(frozen=True)
class ServedModel(LanguageModel):
    """A model without weights.

    Attributes:
        served_at: What serves it.
    """

    served_at: str = ""

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the names under which it is asked and of its vocabulary: nothing tells what weights a server has."""
        digest = hashlib.sha256(f"served {self.served_at} {self.name} {self.revision}".encode())
        for token, index in sorted(self.tokenizer.get_vocab().items()):
            digest.update(f"{index}\t{token}\n".encode())
        return digest.hexdigest()[:32]

    @property
    def device(self) -> torch.device:
        """Where vectors of questions are computed: the model itself is not here."""
        return torch.device("cpu")


def describe_model(name: str, *, served_at: str) -> ServedModel:
    """What is known of a model without loading it.

    Args:
        name: A folder, or a name on the hub, whose tokenizer and configuration can be had here; the server must have
            the model under the same name.
        served_at: The backend and its address.

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
    return ServedModel(name, revision, module, tokenizer, served_at=served_at)
