"""Options for loading a model besides device and number format: memory per GPU, custom code, 4-bit weights."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from kgedit.errors import SpecError

QUANTIZED = ("4bit",)

_SIZE = re.compile(r"\d+(\.\d+)?\s*(B|KB|MB|GB|TB|KiB|MiB|GiB|TiB)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """Options of `load_model` besides device and number format.

    Attributes:
        max_memory: Maximum memory for weights with the device cuda:all: "0=20GiB,1=40GiB,cpu=100GiB"; "" means all
            available.
        trust_remote_code: Whether Python code that comes with the model may run. Such code is not restricted in any
            way.
        quantize: "4bit" quantises weights to 4 bits on loading (bitsandbytes, NF4); "" keeps the number format.
    """

    max_memory: str = ""
    trust_remote_code: bool = False
    quantize: str = ""

    def __post_init__(self) -> None:
        """Check what can be checked without the model.

        Raises:
            SpecError: if an option cannot be parsed.
        """
        parse_max_memory(self.max_memory)
        if self.quantize not in ("", *QUANTIZED):
            raise SpecError([f"there is no quantisation '{self.quantize}'; known: {', '.join(QUANTIZED)}"])

    def arguments(self, dtype: Any) -> dict[str, Any]:
        """Return arguments for `from_pretrained` of transformers.

        Args:
            dtype: torch's number format for computation.
        """
        # Without it, transformers prompts on the terminal.
        found: dict[str, Any] = {"trust_remote_code": self.trust_remote_code}
        if self.max_memory:
            found["max_memory"] = parse_max_memory(self.max_memory)
        if self.quantize:
            import bitsandbytes  # noqa: F401 - where it is missing, transformers would not say which extra has it
            from transformers import BitsAndBytesConfig

            found["quantization_config"] = BitsAndBytesConfig(
                load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=dtype
            )
        return found


def parse_max_memory(text: str) -> dict[int | str, str]:
    """Parse the maximum memory by device: the index of a GPU, or "cpu".

    Raises:
        SpecError: if the text does not have the form "0=20GiB,cpu=100GiB".
    """
    found: dict[int | str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        device, equals, size = (piece.strip() for piece in part.partition("="))
        if not equals or not (device.isdigit() or device == "cpu") or not _SIZE.fullmatch(size):
            raise SpecError([f"max_memory: '{part}' is not a device and a size, such as 0=20GiB or cpu=100GiB"])
        found[int(device) if device.isdigit() else device] = size
    return found


PLAINLY = LoadOptions()
"""Default options."""


def hide_progress_bars() -> None:
    """Turn off the progress bars of transformers, which would be mixed with kgedit's own."""
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
