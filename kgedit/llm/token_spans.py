"""Character span of each token of a text, also for tokenizers that do not report it (without tokenizer.json)."""

from __future__ import annotations

from typing import Any

from kgedit.errors import ModelError

_PROBES = (
    "The mayor of São Paulo is J. O'Neil-Ng (born 1990).",
    "Q: Who is Łódź's head of state?\nA:",
    "Tōkyō, 東京, is a city.",
)


def token_spans(tokenizer: Any, text: str) -> tuple[list[int], list[tuple[int, int]]]:
    """Tokenize a text without special tokens; returns ids and half-open character spans.

    For a tokenizer that does not report spans, prefixes of increasing length are decoded.

    Raises:
        ModelError: if the decoded prefixes do not add up to the text.
    """
    if getattr(tokenizer, "is_fast", False):
        encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        return list(encoded["input_ids"]), list(encoded["offset_mapping"])
    ids = list(tokenizer.encode(text, add_special_tokens=False))
    beginnings = [_decoded(tokenizer, ids[: count + 1]) for count in range(len(ids))]
    # A character of several tokens decodes to a replacement character until its last token.
    whole = [beginning.rstrip("\N{REPLACEMENT CHARACTER}") for beginning in beginnings]
    skipped = len(text) - len(text.lstrip()) if not (whole and whole[-1] == text) else 0
    if not whole or whole[-1] != text[skipped:] or not all(text.startswith(one, skipped) for one in whole):
        raise ModelError(f"The tokenizer does not reproduce the text {text!r}, so token positions in it are unknown.")
    stops = [skipped + len(one) for one in whole]
    return ids, list(zip([0, *stops], stops, strict=False))


def check_places_are_known(tokenizer: Any, name: str) -> None:
    """Raise if the character spans of a tokenizer's tokens cannot be determined.

    Raises:
        ModelError: if they cannot; the message states what to do.
    """
    try:
        for probe in _PROBES:
            token_spans(tokenizer, probe)
    except ModelError as error:
        raise ModelError(
            f"The tokenizer of '{name}' is a slow one that does not report the positions of its tokens; kgedit "
            f"needs tokenizer.json beside the weights. ({error})"
        ) from error


def _decoded(tokenizer: Any, ids: list[int]) -> str:
    return str(tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))
