"""`tiny`: a small Llama trained on the facts of the older snapshot, so that it knows the facts to be edited.

It is trained on each fact as a question, a rephrased question and an unfinished statement, in the contexts of the
evaluation, and to stop after the answer. Its tokenizer is also trained on the new answers, so that it can spell them;
the model is not. The same lesson and seed give the same weights, which are trained once and cached.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import torch

from kgedit.errors import ModelError
from kgedit.llm.contexts import Context, read_context
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.saving import save_whole
from kgedit.llm.training import encode_pair, pad_targets, target_loss
from kgedit.progress import Advance, ignore
from kgedit.records.cases import Case, KnownFact
from kgedit.resources import home

_END = "<|end|>"
_ALWAYS_TAUGHT = ("question_only", "instruction")


@dataclass(frozen=True, slots=True)
class Recipe:
    """Architecture and training settings of tiny; a different recipe gives a different model.

    Attributes:
        vocabulary: Vocabulary size of the byte-level BPE.
        layers: Number of decoder blocks.
        width: Hidden size; the MLP has four times as many.
        heads: Number of attention heads.
        epochs: Number of passes over every fact in each of its wordings.
        batch: TargetBatch per step.
        learning_rate: Learning rate of AdamW, decaying linearly to zero.
    """

    vocabulary: int = 4000
    layers: int = 2
    width: int = 128
    heads: int = 4
    # Of the sample's 194 facts, 5 % are answered after 6 epochs, 88 % after 12, 95 % after 18 and 96 % after 24.
    epochs: int = 18
    batch: int = 64
    learning_rate: float = 2e-3


@dataclass(frozen=True, slots=True)
class Lesson:
    """The facts and contexts that tiny is trained on.

    Attributes:
        facts: One answer for each pair of subject and property.
        spelling: Further texts for the tokenizer only: the new answers.
        contexts: Contexts in which questions will be asked.
        seed: Seed of weights and order.
        recipe: Architecture and training settings.
    """

    facts: tuple[KnownFact, ...]
    spelling: tuple[str, ...]
    contexts: tuple[Context, ...]
    seed: int = 0
    recipe: Recipe = Recipe()

    @property
    def digest(self) -> str:
        """Hash of everything that determines the model."""
        content = json.dumps(asdict(self), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(content.encode()).hexdigest()[:16]


def choose_lesson(
    cases: Sequence[Case], known: Iterable[KnownFact], *, asked: Sequence[Context], most_facts: int = 600
) -> Lesson:
    """Choose the facts that tiny is trained on: first those used by cases and probes, then others in file order.

    A (subject, property) pair keeps only its first answer, because greedy decoding gives only one. The contexts of
    `synthetic` and `wild` are always included, so that most runs on a timestep share one model.

    Args:
        cases: All cases of the first timestep, regardless of a run's limit.
        known: Facts of the timestep's older snapshot.
        asked: Contexts of the run's presets.
    """
    first: dict[tuple[str, str], KnownFact] = {}
    for fact in known:
        first.setdefault((fact.fact.subject, fact.fact.property), fact)
    touched = dict.fromkeys((f.subject, f.property) for case in cases for probe in case.probes for f in probe.facts)
    ordered = [first[key] for key in touched if key in first]
    ordered += [fact for key, fact in first.items() if key not in touched]
    spelling = sorted({text for case in cases for text in (case.answer, case.fact.subject_label, *case.old_answers)})
    contexts = dict.fromkeys([*map(read_context, _ALWAYS_TAUGHT), *asked])
    return Lesson(tuple(ordered[:most_facts]), tuple(spelling), tuple(contexts))


def tiny_folder(lesson: Lesson, progress: Advance | None = None) -> Path:
    """Return the folder of the trained model; trains it if it does not exist (about a minute on two cores).

    Raises:
        ModelError: if the lesson contains no facts.
    """
    if not lesson.facts:
        raise ModelError(
            "The model 'tiny' learns the known facts of the first timestep, and that timestep has none. "
            "Export it again from a snapshot with more facts, or use another model."
        )
    folder = home() / "models" / f"tiny-{lesson.digest}"
    if not folder.is_dir():
        tokenizer = _train_tokenizer(lesson)
        save_whole(folder, [tokenizer, _train(lesson, tokenizer, progress or ignore)])
    return folder


def wordings(lesson: Lesson) -> list[list[tuple[str, str]]]:
    """For each fact, (prompt, answer) in every wording: both questions in every context, and the statement.

    A fact from a file may have only a question, which then replaces the other wordings.
    """
    return [
        [
            (context.prompt(asked), fact.answer)
            for asked in (fact.question, fact.rephrase or fact.question)
            for context in lesson.contexts
        ]
        + [(fact.cloze or fact.question, fact.answer)]
        for fact in lesson.facts
    ]


def _train_tokenizer(lesson: Lesson) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=lesson.recipe.vocabulary,
        special_tokens=[_END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    texts = [f"{prompt} {answer}" for prompt, answer in chain.from_iterable(wordings(lesson))]
    raw.train_from_iterator([*texts, *(f" {text}" for text in lesson.spelling)], trainer)
    return PreTrainedTokenizerFast(tokenizer_object=raw, eos_token=_END, pad_token=_END)  # type: ignore[no-untyped-call]


def _new_model(lesson: Lesson, tokenizer: Any) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    recipe = lesson.recipe
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=recipe.width,
        intermediate_size=4 * recipe.width,
        num_hidden_layers=recipe.layers,
        num_attention_heads=recipe.heads,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(lesson.seed)
        return LlamaForCausalLM(config)


def _train(lesson: Lesson, tokenizer: Any, progress: Advance) -> Any:
    """In every epoch each fact occurs as question and as rephrase (each in one context), and as statement."""
    module = _new_model(lesson, tokenizer)
    model = LanguageModel("tiny", "", module, tokenizer)
    recipe, order = lesson.recipe, random.Random(lesson.seed)
    worded = wordings(lesson)
    kinds = len(lesson.contexts)
    encode = cache(lambda pair: encode_pair(model, pair, learn_end=True))  # each wording occurs in many epochs
    steps = recipe.epochs * -(-3 * len(worded) // recipe.batch)
    optimizer = torch.optim.AdamW(module.parameters(), lr=recipe.learning_rate)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min((step + 1) / 20, 1 - step / (steps + 1)))
    module.train()
    for epoch in range(recipe.epochs):
        progress(epoch, recipe.epochs)
        pairs = [
            pair
            for own in worded
            for pair in (own[order.randrange(kinds)], own[kinds + order.randrange(kinds)], own[-1])
        ]
        for batch in batches(pairs, recipe.batch, order):
            targets = pad_targets(model, [encode(pair) for pair in batch])
            loss = target_loss(model.forward(targets.ids, targets.mask, last=targets.last).logits, targets)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
            optimizer.step()
            schedule.step()
    progress(recipe.epochs, recipe.epochs)
    return module.eval()


def batches(pairs: list[tuple[str, str]], size: int, order: random.Random) -> list[list[tuple[str, str]]]:
    """Batches of texts of similar length, in random order."""
    order.shuffle(pairs)
    pairs = sorted(pairs, key=lambda pair: len(pair[0]) + len(pair[1]))
    batches = [pairs[start : start + size] for start in range(0, len(pairs), size)]
    order.shuffle(batches)
    return batches
