"""Where each token of a text stands, also by tokenizers that do not tell (those without tokenizer.json)."""

from __future__ import annotations

from typing import Any

from kgedit.errors import ModelError

_PROBES = (
    "The mayor of São Paulo is J. O'Neil-Ng (born 1990).",
    "Q: Who is Łódź's head of state?\nA:",
    "Tōkyō, 東京, is a city.",
)


def token_spans(tokenizer: Any, text: str) -> tuple[list[int], list[tuple[int, int]]]:
    """Tokens of a text without special ones, and the first character of each with the one behind its last.

    A tokenizer that does not tell is asked for the text of longer and longer beginnings.

    Raises:
        ModelError: if these do not add up to the text.
    """
    if getattr(tokenizer, "is_fast", False):
        encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        return list(encoded["input_ids"]), list(encoded["offset_mapping"])
    ids = list(tokenizer.encode(text, add_special_tokens=False))
    beginnings = [_decoded(tokenizer, ids[: count + 1]) for count in range(len(ids))]
    # A character of several tokens decodes to a replacement until its last one.
    whole = [beginning.rstrip("\N{REPLACEMENT CHARACTER}") for beginning in beginnings]
    skipped = len(text) - len(text.lstrip()) if not (whole and whole[-1] == text) else 0
    if not whole or whole[-1] != text[skipped:] or not all(text.startswith(one, skipped) for one in whole):
        raise ModelError(f"The tokenizer does not give back the text {text!r}, so that no place in it is known.")
    stops = [skipped + len(one) for one in whole]
    return ids, list(zip([0, *stops], stops, strict=False))


def check_places_are_known(tokenizer: Any, name: str) -> None:
    """Refuse a tokenizer whose tokens cannot be placed in a text.

    Raises:
        ModelError: with a remedy.
    """
    try:
        for probe in _PROBES:
            token_spans(tokenizer, probe)
    except ModelError as error:
        raise ModelError(
            f"The tokenizer of '{name}' is a slow one, and where its tokens stand in a text cannot be told; kgedit "
            f"needs tokenizer.json beside the weights. ({error})"
        ) from error


def _decoded(tokenizer: Any, ids: list[int]) -> str:
    return str(tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))
