"""How a model is loaded beyond its device and number format: memory of each GPU, code of its own, 4-bit weights."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from kgedit.errors import SpecError

QUANTIZED = ("4bit",)

_SIZE = re.compile(r"\d+(\.\d+)?\s*(B|KB|MB|GB|TB|KiB|MiB|GiB|TiB)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """What `load_model` is told beyond device and number format.

    Attributes:
        max_memory: Most memory that weights may take, with the device cuda:all: "0=20GiB,1=40GiB,cpu=100GiB"; "" for
            what there is.
        trust_remote_code: Whether Python code that comes with the model may run. It can do whatever its author wants.
        quantize: "4bit" to round weights to 4 bits as they are loaded (bitsandbytes, NF4); "" for the number format.
    """

    max_memory: str = ""
    trust_remote_code: bool = False
    quantize: str = ""

    def __post_init__(self) -> None:
        """Check what can be checked without the model.

        Raises:
            SpecError: if a text cannot be read.
        """
        parse_max_memory(self.max_memory)
        if self.quantize not in ("", *QUANTIZED):
            raise SpecError([f"there is no quantisation '{self.quantize}'; known: {', '.join(QUANTIZED)}"])

    def arguments(self, dtype: Any) -> dict[str, Any]:
        """For `from_pretrained` of transformers.

        Args:
            dtype: torch's number format that is computed in.
        """
        # Where nobody says, transformers asks on the terminal.
        found: dict[str, Any] = {"trust_remote_code": self.trust_remote_code}
        if self.max_memory:
            found["max_memory"] = parse_max_memory(self.max_memory)
        if self.quantize:
            import bitsandbytes  # noqa: F401 - where it is missing, transformers would not say which extra has it
            from transformers import BitsAndBytesConfig

            found["quantization_config"] = BitsAndBytesConfig(  # type: ignore[no-untyped-call]
                load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=dtype
            )
        return found


def parse_max_memory(text: str) -> dict[int | str, str]:
    """Most memory by device: the number of a GPU, or "cpu".

    Raises:
        SpecError: if it is not written as "0=20GiB,cpu=100GiB".
    """
    found: dict[int | str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        device, equals, size = (piece.strip() for piece in part.partition("="))
        if not equals or not (device.isdigit() or device == "cpu") or not _SIZE.fullmatch(size):
            raise SpecError([f"max_memory: '{part}' is not a device and a size, such as 0=20GiB or cpu=100GiB"])
        found[int(device) if device.isdigit() else device] = size
    return found


PLAINLY = LoadOptions()
"""Nothing beyond device and number format."""
