"""Edit requests at the end of the prompt and inside the answer, for answers of many tokens and without a subject."""

from __future__ import annotations

from collections.abc import Sequence

from kgedit.editing.locate_then_edit.subject_prompts import SubjectPrompt, encode_with_subject
from kgedit.editing.locate_then_edit.value_search import EditRequest
from kgedit.llm.contexts import Context
from kgedit.llm.language_model import LanguageModel
from kgedit.records.cases import Case


def answer_requests(
    model: LanguageModel,
    case: Case,
    contexts: Sequence[Context],
    *,
    chunk: int | None,
    learn_end: bool,
    random_prefixes: Sequence[Sequence[int]] = (),
) -> list[EditRequest]:
    """Build one request per chunk of a case's answer; its vector is added at the token before the chunk.

    Args:
        contexts: Contexts of the prompts; the first one determines the target's tokens.
        chunk: Number of tokens per chunk, of which the last may have fewer; None means the whole answer.
        learn_end: Whether the answer includes the end of the text.
        random_prefixes: Token ids of texts before further prompts in the first context.
    """
    texts = [context.prompt(case.question) for context in contexts]
    prompts = [encode_with_subject(model, text, len(text)) for text in texts]
    prompts += [encode_with_subject(model, texts[0], len(texts[0]), random_prefix=ids) for ids in random_prefixes]
    target = model.encode_target(case.answer, after=texts[0])
    target += model.end_of_answer(texts[0]) if learn_end else []
    size = chunk or len(target)
    return [
        EditRequest(
            tuple(SubjectPrompt((*prompt.ids, *target[:start]), len(prompt.ids) + start - 1) for prompt in prompts),
            drift_prompt(model, case),
            tuple(target[start : start + size]),
        )
        for start in range(0, len(target), size)
    ]


def drift_prompt(model: LanguageModel, case: Case) -> SubjectPrompt:
    """A prompt about the case's subject, or its question if it has no subject."""
    subject = case.fact.subject_label or case.question
    return encode_with_subject(model, f"{subject} is a", len(subject))
