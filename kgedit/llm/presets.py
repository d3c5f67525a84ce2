"""Presets: named choices of context, generation, truncation and metric.

`synthetic` is what most editing papers report, `wild` is the setting of Mirage (section 3). Instruct models often end a
raw prompt immediately, so `wild_chat` asks the same question with the chat template and keeps the whole first sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kgedit.records.runs import Preset


def _freely(name: str, *, context: str, truncation: str, metric: str = "exact_match", shots: int = 0) -> Preset:
    return Preset(
        name=name,
        context=context,
        generation="greedy",
        truncation=truncation,
        max_new_tokens=50,
        metric=metric,
        shots=shots,
    )


_PAPERS_TOKENS = 90
"""New tokens of WikiFactDiff's texts: its code stops at 100 including the prompt, and a cloze has about ten."""

THINKING_TOKENS = 1024
"""Default number of tokens of reasoning: a fact needs no long derivation, and every question costs as many at most."""

PRESETS: dict[str, Preset] = {
    preset.name: preset
    for preset in (
        Preset(
            name="synthetic",
            context="question_only",
            generation="teacher_forcing",
            truncation="gold_length",
            max_new_tokens=50,
            metric="token_match",
        ),
        Preset(
            name="cloze",
            context="question_only",
            generation="teacher_forcing",
            truncation="gold_length",
            max_new_tokens=50,
            metric="token_match",
            wording="cloze",
        ),
        _freely("wild", context="instruction", truncation="newline_period"),
        _freely("wild_chat", context="chat:instruction", truncation="sentence", metric="contains"),
        replace(
            _freely("thinking_chat", context="chat:instruction", truncation="sentence", metric="contains"),
            thinking_tokens=THINKING_TOKENS,
        ),
        _freely("wild_line", context="instruction", truncation="newline"),
        _freely("question_only", context="question_only", truncation="newline_period"),
        _freely("few_shot", context="question_answer", truncation="newline", shots=3),
        replace(
            _freely("long_chat", context="chat", truncation="end_of_text", metric="rouge_l"),
            max_new_tokens=512,
            axes=("update", "rephrase"),
        ),
        replace(
            _freely("free_text", context="question_only", truncation="end_of_text", metric="fluency"),
            max_new_tokens=100,
        ),
        replace(
            _freely("cloze_text", context="question_only", truncation="end_of_text", metric="ngram_entropy"),
            max_new_tokens=_PAPERS_TOKENS,
            wording="cloze",
            axes=("rephrase",),
        ),
    )
}

MEANINGS = {
    "synthetic": "the bare question; the answer is fed, its arg max counted",
    "cloze": "synthetic, worded as clozes where there are some (WikiFactDiff)",
    "wild": "an instruction as plain text, up to a newline or period",
    "wild_chat": "a user's turn in the chat template; the whole first sentence",
    "thinking_chat": "wild_chat after at most 1024 tokens of reasoning, which are not scored",
    "wild_line": "wild up to a newline, for answers as Robert C. Newton",
    "question_only": "the bare question, with free generation",
    "few_shot": "after known facts with their answers; few_shot:N:SEED draws N",
    "long_chat": "a user's turn, answered in up to 512 tokens: texts (UnKE, AKEW)",
    "free_text": "100 tokens after the bare question, for fluency",
    "cloze_text": "90 tokens after the four other clozes: WikiFactDiff's fluency",
}
"""One-line description of each preset for the help."""

STOPS: dict[str, tuple[str, ...]] = {
    "newline_period": ("\n", "."),
    "newline": ("\n",),
    "sentence": ("\n",),
    "end_of_text": (),
    "gold_length": (),
}
"""Truncation module -> texts that end an answer, in addition to the end of the text. "gold_length" ends by length;
"sentence" also ends after the first sentence, which stop texts cannot detect (kgedit.llm.replies)."""


def same_text(presets: Sequence[Preset]) -> list[tuple[Preset, ...]]:
    """Group presets that produce the same answers, because they differ only in name and metric."""
    groups: dict[Preset, list[Preset]] = {}
    for preset in presets:
        groups.setdefault(replace(preset, name="", metric=""), []).append(preset)
    return [tuple(group) for group in groups.values()]


def preset_by_name(name: str) -> Preset | None:
    """Return a preset by name, or None; "few_shot:N" and "few_shot:N:SEED" have N demonstrations."""
    base, *given = name.split(":")
    preset = PRESETS.get(base)
    if preset is None or not given:
        return preset
    if not preset.shots or len(given) > 2 or not all(text.isdecimal() for text in given):
        return None
    shots, seed = (*map(int, given), 0)[:2]
    return replace(preset, name=name, shots=shots, shots_seed=seed)
