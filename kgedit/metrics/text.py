"""Metrics of an answer's text: match with accepted answers, format, fluency, and verdicts of judges and encoders.

Judge and encoder are run by `kgedit score --metric`; their metrics only read the values.

n-gram entropy is low for repetitive text and only meaningful for long free answers. WikiFactDiff's table 7 gives
2/3 H2 + 4/3 H3, which is `fluency`. The numbers of its table 6 (5.2 for GPT-J), and those of ROME, MEMIT and EasyEdit
(there times 100), are the mean of the two weighted entropies, which is half of that, and count punctuation marks as
words: `ngram_entropy`.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from functools import cache, partial
from typing import Any, Literal

from kgedit.metrics import Earlier, Metric
from kgedit.metrics.matching import UNSPACED, comparable, contains
from kgedit.records.cases import LOCALITY_AXES
from kgedit.records.runs import UNEDITED, Answer, JudgedAnswer


def _judge_exact_match(answer: Answer, _: Earlier | None) -> float:
    text, gold = comparable(answer.text, answer.answers[0])
    return float(text == gold)


EXACT_MATCH = Metric(
    name="exact_match",
    minimum=0.0,
    maximum=1.0,
    higher_is_better=True,
    formula="1 if normalized text = normalized gold answer, else 0",
    citation="Rajpurkar et al. 2016, SQuAD; WILD-em of Yang et al. 2025, The Mirage of Model Editing",
    generation="any",
    judge=_judge_exact_match,
)


def _judge_exact_match_any(answer: Answer, _: Earlier | None) -> float:
    pairs = (comparable(answer.text, accepted) for accepted in answer.answers)
    return float(any(text == gold for text, gold in pairs))


EXACT_MATCH_ANY = Metric(
    name="exact_match_any",
    minimum=0.0,
    maximum=1.0,
    higher_is_better=True,
    formula="1 if normalized text = normalized form of any accepted answer, else 0",
    citation="Joshi et al. 2017, TriviaQA (best match over the aliases of the answer)",
    generation="free",
    judge=_judge_exact_match_any,
)


# For answers that are not truncated at a newline.
def _judge_first_line(answer: Answer, _: Earlier | None) -> float:
    text, gold = comparable(answer.text.strip().partition("\n")[0], answer.answers[0].strip().partition("\n")[0])
    return float(text == gold)


FIRST_LINE = Metric(
    name="first_line",
    minimum=0.0,
    maximum=1.0,
    higher_is_better=True,
    formula="1 if the normalized first line of the text = the normalized gold answer, else 0",
    citation="Gao et al. 2024, A Framework for Few-Shot Language Model Evaluation (generation up to a newline)",
    generation="free",
    judge=_judge_first_line,
)


# Lenient: lists of several answers and contradictions also count as correct.
def _judge_contains(answer: Answer, _: Earlier | None) -> float:
    return float(contains(answer.text, answer.answers[0]))


CONTAINS = Metric(
    name="contains",
    minimum=0.0,
    maximum=1.0,
    higher_is_better=True,
    formula="1 if the text has the words of the gold answer in a row, without case, accents and punctuation, else 0",
    citation="Mallen et al. 2023, When Not to Trust Language Models (accuracy on PopQA; there without word borders)",
    generation="free",
    judge=_judge_contains,
)


def _judge_contains_any(answer: Answer, _: Earlier | None) -> float:
    return float(any(contains(answer.text, accepted) for accepted in answer.answers))


CONTAINS_ANY = Metric(
    name="contains_any",
    minimum=0.0,
    maximum=1.0,
    higher_is_better=True,
    formula="1 if the text has the words of any accepted answer in a row, as contains compares them, else 0",
    citation="Mallen et al. 2023, When Not to Trust Language Models (accuracy on PopQA, over all aliases)",
    generation="free",
    judge=_judge_contains_any,
)


_UNSPACED = re.compile(UNSPACED)
_SPACED = re.compile(f"{UNSPACED}|(?:(?!{UNSPACED})\\S)+")
"""A text between spaces, or a character of a script without spaces between words."""

_WORDS, _CHARACTERS, _TOO_OFTEN = 4, 12, 3
"""A text goes in circles if a run of this many words occurs this often; titles and names repeat shorter runs. In a text
of a script without spaces, most of whose words are characters, it is the second number."""


# The rule closest to manual judgement. It rejects what a judge calls wrong although it contains the answer: lists of
# several answers, repetitive text.
def _judge_single_answer(answer: Answer, _: Earlier | None) -> float:
    pairs = [comparable(answer.text, accepted) for accepted in answer.answers if accepted.strip()]
    if any(text == accepted for text, accepted in pairs):
        return 1.0
    named = any(contains(answer.text, accepted) for accepted in answer.answers)
    return float(named and "\n" not in answer.text.strip() and not _goes_in_circles(answer.text))


def _goes_in_circles(text: str) -> bool:
    words = _SPACED.findall(text.lower())
    is_spaced = 2 * len(_UNSPACED.findall(text)) <= len(words)
    runs = Counter(zip(*(words[start:] for start in range(_WORDS if is_spaced else _CHARACTERS)), strict=False))
    return max(runs.values(), default=0) >= _TOO_OFTEN


SINGLE_ANSWER = Metric(
    name="single_answer",
    minimum=0.0,
    maximum=1.0,
    higher_is_better=True,
    formula="1 if the text contains any accepted answer, is one line, and holds no four words in a row thrice, else 0",
    citation="kgedit 2026 (docs/measurements/2026-11-25-agreement-of-judges.md)",
    generation="free",
    judge=_judge_single_answer,
)


def _judge_token_f1(answer: Answer, _: Earlier | None) -> float:
    text, gold = (form.split() for form in comparable(answer.text, answer.answers[0]))
    shared = (Counter(text) & Counter(gold)).total()
    # 2PR / (P + R) with P = shared / |text| and R = shared / |gold|, which is 0 / 0 if no words are shared.
    return 2 * shared / (len(text) + len(gold)) if shared else 0.0


TOKEN_F1 = Metric(
    name="token_f1",
    minimum=0.0,
    maximum=1.0,
    higher_is_better=True,
    formula="2 |text ∩ gold| / (|text| + |gold|) over bags of normalized words",
    citation="Rajpurkar et al. 2016, SQuAD",
    generation="free",
    judge=_judge_token_f1,
)


class _Words:
    """Tokenizer for rouge-score, whose own one drops every letter outside a-z.

    A text without words, such as "C++" or "!", is a single token.
    """

    def tokenize(self, text: str) -> list[str]:
        return _ROUGE_WORD.findall(text.casefold()) or [text.strip()]


_LETTERS = f"(?:(?!{UNSPACED})\\w)+"
_ROUGE_WORD = re.compile(f"{UNSPACED}|{_LETTERS}")
"""A word, or a character of a script without spaces between words."""


@cache
def _rouge_scorer() -> Any:
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(["rouge1", "rouge2", "rougeL"], tokenizer=_Words())


def _judge_rouge(answer: Answer, _: Earlier | None, *, name: str) -> float | None:
    return max(_rouge_f1(accepted, answer.text, name) for accepted in answer.answers)


def _rouge_f1(gold: str, text: str, name: str) -> float:
    single = name == "rouge2" and len(_Words().tokenize(gold)) == 1  # has no pair
    measured = "rouge1" if single else name
    return float(_rouge_scorer().score(gold, text)[measured].fmeasure)


def _rouge(name: str, library_name: str, formula: str) -> Metric:
    return Metric(
        name=name,
        minimum=0.0,
        maximum=1.0,
        higher_is_better=True,
        formula=formula,
        citation="Lin 2004, ROUGE; texts of several sentences in Deng et al. 2024, UnKE, tables 1 and 2",
        generation="free",
        judge=partial(_judge_rouge, name=library_name),
    )


ROUGE_1 = _rouge("rouge_1", "rouge1", "F1 of the words that text and gold answer share")
ROUGE_2 = _rouge(
    "rouge_2",
    "rouge2",
    "F1 of the pairs of adjacent words that text and gold answer share; of words if the gold answer is one",
)
ROUGE_L = _rouge("rouge_l", "rougeL", "F1 of the longest common subsequence of words of text and gold answer")


# Inflated by teacher forcing (The Mirage of Model Editing, section 4).
def _judge_token_match(answer: Answer, _: Earlier | None) -> float | None:
    return answer.token_match


TOKEN_MATCH = Metric(
    name="token_match",
    minimum=0.0,
    maximum=1.0,
    higher_is_better=True,
    formula="gold tokens at their index among those generated (fed: predicted by arg max) / gold tokens",
    citation="Yang et al. 2025, The Mirage of Model Editing, section 4 and tables 2, 4 and 5 (match ratio)",
    generation="any",
    judge=_judge_token_match,
)


# Locality as identity with the unedited model's answer, whether correct or not.
def _judge_unchanged(answer: Answer, before: Earlier | None) -> float | None:
    return None if before is None or answer.model_state == UNEDITED else float(answer.text == before.text)


UNCHANGED = Metric(
    name="unchanged",
    minimum=0.0,
    maximum=1.0,
    higher_is_better=True,
    formula="1 if text = text before any edit to the same question under the same preset, else 0",
    citation="Yang et al. 2025, The Mirage of Model Editing (locality: same output before and after)",
    generation="any",
    axes=LOCALITY_AXES,
    judge=_judge_unchanged,
)


# The share of empty answers distinguishes a format that the model does not follow from missing knowledge.
def _judge_empty(answer: Answer, _: Earlier | None) -> float:
    return float(not answer.text.strip())


EMPTY = Metric(
    name="empty",
    minimum=0.0,
    maximum=1.0,
    higher_is_better=False,
    formula="1 if nothing but white space is left of the text, else 0",
    citation="kgedit 2026 (an instruct model ends a raw prompt at once)",
    generation="free",
    judge=_judge_empty,
)


_TOKEN = re.compile(rf"{UNSPACED}|{_LETTERS}(?:[-.,'’]{_LETTERS})*|[^\w\s]")
"""A word, including inner punctuation (3.5; 26,000; well-known), a punctuation mark, or a character of a script without
spaces between words.

The published code uses NLTK's word_tokenize, which needs a downloaded sentence model; it also splits "don't".
"""


def _judge_fluency(answer: Answer, _: Earlier | None) -> float:
    return _weighted(_SPACED.findall(answer.text))


def _judge_ngram_entropy(answer: Answer, _: Earlier | None) -> float:
    return _weighted(_TOKEN.findall(answer.text)) / 2


def _weighted(words: Sequence[str]) -> float:
    return 2 / 3 * _entropy(words, 2) + 4 / 3 * _entropy(words, 3)


def _entropy(words: Sequence[str], n: int) -> float:
    """Entropy in bits of the relative n-gram frequencies; 0 if there are none."""
    grams = Counter(zip(*(words[start:] for start in range(n)), strict=False))
    return -sum(count / grams.total() * math.log2(count / grams.total()) for count in grams.values()) + 0.0


FLUENCY = Metric(
    name="fluency",
    minimum=0.0,
    maximum=math.inf,
    higher_is_better=True,
    formula="2/3 H2 + 4/3 H3, with Hn the entropy in bits of the frequencies of n-grams of words, without the prompt",
    citation="Meng et al. 2022, ROME, section 3.4; WikiFactDiff (Ammar Khodja et al. 2024), table 7; Zhang et al. 2018",
    generation="free",
    of_correctness=False,
    judge=_judge_fluency,
)


NGRAM_ENTROPY = Metric(
    name="ngram_entropy",
    minimum=0.0,
    maximum=math.inf,
    higher_is_better=True,
    formula="1/3 H2 + 2/3 H3, with Hn the entropy in bits of the frequencies of n-grams of words and punctuation "
    "marks, without the prompt",
    citation="WikiFactDiff (Ammar Khodja et al. 2024), table 6 and its released code; times 100 in ROME (Meng et al. "
    "2022), table 4",
    generation="free",
    of_correctness=False,
    judge=_judge_ngram_entropy,
)


def _judge_verdict(answer: Answer, _: Earlier | None) -> float | None:
    right = answer.right if isinstance(answer, JudgedAnswer) else None
    return None if right is None else float(right)


JUDGE = Metric(
    name="judge",
    minimum=0.0,
    maximum=1.0,
    higher_is_better=True,
    formula="1 if a language model that is shown question, accepted answers and text calls the text correct, else 0",
    citation="Yang et al. 2025, The Mirage of Model Editing, section 3 (LLM-as-a-judge)",
    generation="free",
    of_correctness=False,
    afterwards=True,
    judge=_judge_verdict,
)


BERTSCORES = ("bertscore", "bertscore_precision", "bertscore_recall")
"""Names of BERTScore's metrics."""


_BERTSCORE_SOURCE = "Zhang et al. 2020, BERTScore: Evaluating Text Generation with BERT, section 3"


def _judge_bertscore(
    answer: Answer,
    _: Earlier | None,
    *,
    part: Literal["precision", "recall", "f1"],
) -> float | None:
    found = answer.bertscore if isinstance(answer, JudgedAnswer) else None
    if found is None:
        return None
    return {"precision": found.precision, "recall": found.recall, "f1": found.f1}[part]


def _bertscore(name: str, part: Literal["precision", "recall", "f1"], formula: str) -> Metric:
    return Metric(
        name=name,
        minimum=-math.inf,  # rescaling with a baseline close to 1 can give scores far below 0
        maximum=1.0,
        higher_is_better=True,
        formula=f"{formula}; of several accepted answers the nearest by F1",
        citation=_BERTSCORE_SOURCE,
        generation="free",
        of_correctness=False,
        afterwards=True,
        judge=partial(_judge_bertscore, part=part),
    )


BERTSCORE = _bertscore(BERTSCORES[0], "f1", "F1 = 2PR / (P + R) of BERTScore's precision and recall")
BERTSCORE_PRECISION = _bertscore(
    BERTSCORES[1],
    "precision",
    "mean, over the text's tokens, of the highest cosine with a token of the accepted answer",
)
BERTSCORE_RECALL = _bertscore(
    BERTSCORES[2], "recall", "mean, over the accepted answer's tokens, of the highest cosine with a token of the text"
)
