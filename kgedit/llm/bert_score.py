"""BERTScore: similarity of two texts by contextual token embeddings, each token matched to its most similar one.

Special tokens that the tokenizer adds are encoded but never compared. Scores with different encoders, layers, idf
weights or baselines are not comparable. Source: Zhang et al. 2020, BERTScore: Evaluating Text Generation with BERT,
section 3.
"""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from kgedit.errors import ModelError
from kgedit.llm.load_options import hide_progress_bars
from kgedit.llm.model_files import configuration_digest, joined_digest, tokenizer_digest, weights_digest
from kgedit.records.runs import BertScore

Weights = Mapping[int, float]
"""Token id -> weight of the token."""

_PAIRS_AT_ONCE = 512
"""Pairs whose embeddings are in memory at once: about 20 MB with 768 dimensions and ten tokens per text."""

_NOTHING = BertScore(precision=0.0, recall=0.0, f1=0.0)


@dataclass(frozen=True, slots=True)
class EncodedText:
    """A text without special tokens.

    Attributes:
        ids: Token ids.
        vectors: Embeddings of the tokens, normalised to length 1, tokens x dimensions.
    """

    ids: tuple[int, ...]
    vectors: torch.Tensor


class Encoder:
    """A local encoder whose hidden states are used as embeddings.

    Args:
        path: Folder in Hugging Face layout.
        layer: Hidden layer; 0 means the embeddings below the first block, None the last layer.
        device: "cpu", "cuda" or "cuda:N".
        batch_tokens: Maximum number of tokens per batch, including padding.

    Raises:
        ModelError: if the folder contains no readable encoder, or the encoder has no such layer.
    """

    def __init__(self, path: Path, *, layer: int | None = None, device: str = "cpu", batch_tokens: int = 8192) -> None:
        self._tokenizer, self._module = _load(path, device)
        self._batch_tokens = batch_tokens
        layers = int(self._module.config.num_hidden_layers)
        if layer is not None and not 0 <= layer <= layers:
            raise ModelError(
                f"{path} has hidden layers 0 to {layers}, so there is no layer {layer}. Give one of these."
            )
        self.layer = layers if layer is None else layer
        self._longest = _longest(self._tokenizer, self._module.config)

    @cached_property
    def fingerprint(self) -> str:
        """Digest of configuration, tokenizer and all weights."""
        config, tokenizer = self._module.config, self._tokenizer
        return joined_digest((configuration_digest(config), tokenizer_digest(tokenizer), weights_digest(self._module)))

    def tokens(self, text: str) -> tuple[int, ...]:
        """Token ids of a text without special tokens, truncated to the encoder's maximum length."""
        return self._tokenize(text).own_ids

    @torch.inference_mode()
    def encode(self, texts: Sequence[str]) -> list[EncodedText]:
        """Embed texts, each once, in batches of similar length."""
        tokenized = {text: self._tokenize(text) for text in dict.fromkeys(texts)}
        readable = [text for text, tokens in tokenized.items() if tokens.own]
        found: dict[str, EncodedText] = {}
        batch: list[str] = []
        for text in sorted(readable, key=lambda text: (len(tokenized[text].ids), text)):
            # Lengths ascend: the next text is the widest of its batch.
            if batch and (len(batch) + 1) * len(tokenized[text].ids) > self._batch_tokens:
                found |= self._read({text: tokenized[text] for text in batch})
                batch = []
            batch.append(text)
        if batch:
            found |= self._read({text: tokenized[text] for text in batch})
        empty = EncodedText((), torch.zeros(0, int(self._module.config.hidden_size)))
        return [found.get(text, empty) for text in texts]

    def _tokenize(self, text: str) -> _Tokens:
        # Byte-level tokenizers recognise a word by its leading space; others drop the space.
        tokenized = self._tokenizer(
            f" {text.strip()}", truncation=True, max_length=self._longest, return_special_tokens_mask=True
        )
        own = [index for index, special in enumerate(tokenized["special_tokens_mask"]) if not special]
        return _Tokens(tuple(tokenized["input_ids"]), tuple(own) if text.strip() else ())

    def _read(self, texts: Mapping[str, _Tokens]) -> dict[str, EncodedText]:
        width = max(len(tokens.ids) for tokens in texts.values())
        padding = [width - len(tokens.ids) for tokens in texts.values()]
        fill, device = self._tokenizer.pad_token_id or 0, self._module.device
        rows = [[*tokens.ids, *[fill] * left] for tokens, left in zip(texts.values(), padding, strict=True)]
        mask = [[1] * (width - left) + [0] * left for left in padding]
        states = self._module(
            input_ids=torch.tensor(rows, device=device),
            attention_mask=torch.tensor(mask, device=device),
            output_hidden_states=True,
        ).hidden_states[self.layer]
        vectors = torch.nn.functional.normalize(states.float(), dim=-1).cpu()
        return {
            text: EncodedText(tokens.own_ids, vectors[index, list(tokens.own)])
            for index, (text, tokens) in enumerate(texts.items())
        }


@dataclass(frozen=True, slots=True)
class _Tokens:
    """All tokens of a text as encoded, and the indexes of those that are not special tokens."""

    ids: tuple[int, ...]
    own: tuple[int, ...]

    @property
    def own_ids(self) -> tuple[int, ...]:
        return tuple(self.ids[index] for index in self.own)


def _load(path: Path, device: str) -> tuple[Any, Any]:
    from transformers import AutoModel, AutoTokenizer

    hide_progress_bars()
    if not path.is_dir():
        raise ModelError(
            f"There is no folder {path}. Give one that contains an encoder, such as RoBERTa: --bertscore-model"
        )
    try:
        tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=True)
        module: Any = AutoModel.from_pretrained(path, local_files_only=True, dtype=torch.float32)
    except (OSError, ValueError, KeyError) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise ModelError(f"The folder {path} contains no encoder that transformers can read. ({first})") from error
    if getattr(module.config, "is_encoder_decoder", False):
        raise ModelError(f"{path} is an encoder with a decoder. Give an encoder alone, such as BERT or RoBERTa.")
    return tokenizer, module.to(device).eval()


def _longest(tokenizer: Any, config: Any) -> int:
    """Maximum number of tokens of a text; positions of the RoBERTa family start at 2."""
    positions = getattr(config, "max_position_embeddings", None) or tokenizer.model_max_length
    return int(min(positions - 2, tokenizer.model_max_length))


def inverse_document_frequencies(references: Sequence[Sequence[int]]) -> Weights:
    """Inverse document frequencies of tokens, with plus-one smoothing (section 3, importance weighting).

    Args:
        references: Token ids of each reference.

    Returns:
        log((M + 1) / (M(w) + 1)) for M references of which M(w) contain the token; log(M + 1) for unseen tokens.
    """
    holders = Counter(token for ids in references for token in set(ids))
    total = len(references)
    return _Inverse({token: math.log((total + 1) / (count + 1)) for token, count in holders.items()}, total)


class _Inverse(dict[int, float]):
    def __init__(self, known: Mapping[int, float], total: int) -> None:
        super().__init__(known)
        self._unknown = math.log(total + 1)

    def __missing__(self, token: int) -> float:
        return self._unknown


def compare(candidate: EncodedText, reference: EncodedText, *, weights: Weights | None = None) -> BertScore:
    """Compute precision, recall and F1 of one text against another.

    Args:
        weights: Weights of tokens; None means equal weights, as does a text whose tokens all have weight 0.
    """
    if not candidate.ids or not reference.ids:
        return _NOTHING
    similarity = candidate.vectors @ reference.vectors.T
    precision = _weighted(similarity.amax(1), candidate.ids, weights)
    recall = _weighted(similarity.amax(0), reference.ids, weights)
    total = precision + recall
    return BertScore(precision=precision, recall=recall, f1=2 * precision * recall / total if total > 0 else 0.0)


def _weighted(best: torch.Tensor, ids: Sequence[int], weights: Weights | None) -> float:
    own = torch.tensor([1.0 if weights is None else weights[token] for token in ids])
    if own.sum() <= 0:
        own = torch.ones(len(ids))
    return float((best * own).sum() / own.sum())


def bert_scores(
    encoder: Encoder,
    pairs: Sequence[tuple[str, Sequence[str]]],
    *,
    weights: Weights | None = None,
) -> list[BertScore]:
    """Score texts, each against the reference with the highest F1.

    Args:
        pairs: Texts with their references, at least one each.
        weights: Weights of tokens; None means equal weights.
    """
    found: dict[int, BertScore] = {}
    order = sorted(range(len(pairs)), key=lambda index: (len(pairs[index][0]), index))
    for start in range(0, len(order), _PAIRS_AT_ONCE):
        chunk = order[start : start + _PAIRS_AT_ONCE]
        texts = [text for index in chunk for text in (pairs[index][0], *pairs[index][1])]
        encoded = dict(zip(texts, encoder.encode(texts), strict=True))
        for index in chunk:
            text, references = pairs[index]
            scores = [compare(encoded[text], encoded[reference], weights=weights) for reference in references]
            found[index] = max(scores, key=lambda score: score.f1)
    return [found[index] for index in range(len(pairs))]


def read_baseline(path: Path, layer: int) -> BertScore:
    """Read the scores of unrelated texts at one layer, from CSV with columns LAYER, P, R and F (section 3, rescaling).

    Raises:
        ModelError: if there is no such file, or it does not contain the layer.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        (row,) = [row for row in rows if int(row["LAYER"]) == layer]
        return BertScore(precision=float(row["P"]), recall=float(row["R"]), f1=float(row["F"]))
    except (OSError, UnicodeDecodeError, KeyError, ValueError, TypeError) as error:
        raise ModelError(
            f"{path} has no baseline for layer {layer}: it must be CSV with the columns LAYER, P, R, F and a row "
            f"for each layer. ({error})"
        ) from error


def rescaled(score: BertScore, baseline: BertScore) -> BertScore:
    """Rescale a score so that the baseline becomes 0 and 1 stays 1, each of the three values by its own baseline."""
    return BertScore(
        precision=_rescaled(score.precision, baseline.precision),
        recall=_rescaled(score.recall, baseline.recall),
        f1=_rescaled(score.f1, baseline.f1),
    )


def _rescaled(value: float, baseline: float) -> float:
    return (value - baseline) / (1 - baseline)
