"""Models that know the facts of an older snapshot, so that "before an edit" and "kept" mean something for them.

`tiny` is a small Llama trained on each fact as a question, a rephrased question and an unfinished statement, in the
contexts of the evaluation, and to stop after the answer. Its tokenizer is also trained on the new answers, so that it
can spell them; the model is not. The same lesson and seed give the same weights, which are trained once and cached.

Other small models know few of the facts that a timestep edits. Fine-tuning all weights of one on the older snapshot's
facts gives a subject for experiments that answers them with free generation. An epoch trains each fact's question in a
random context, and its rephrasing or statement; of facts that the model answered after the last epoch only the latter.
The state is stored after each epoch, and a resumed training gives the same weights.
"""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from kgedit.errors import ModelError
from kgedit.files import replace_file
from kgedit.llm.contexts import Context, read_context
from kgedit.llm.generation import Question, answer_freely
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.model_files import save_tensors, save_whole, whole_folder
from kgedit.llm.training import (
    backward,
    encode_pair,
    encode_targets,
    loss_scaler,
    pad_targets,
    seeded,
    take_step,
    target_loss,
)
from kgedit.progress import Advance, ignore
from kgedit.records.cases import Case, KnownFact
from kgedit.records.runs import Preset
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
    return PreTrainedTokenizerFast(tokenizer_object=raw, eos_token=_END, pad_token=_END)


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
    """Train on every fact as question and as rephrase (each in one context), and as statement, in every epoch."""
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


_WARM_UP = 20
"""Steps until the learning rate is reached: Adam's first estimates of the second moment are poor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TeachingPlan:
    """Settings of the training.

    Attributes:
        goal: Share of facts answered with free generation at which it ends.
        epochs: Maximum number of epochs.
        batch: Rows per step.
        learning_rate: Learning rate of AdamW after its warm-up; it stays constant, because the number of epochs is
            open.
    """

    goal: float = 0.9
    # SmolLM2-135M reached the goal on the sample in its ninth epoch (docs/how-to/teach.md); 12 leaves a third more.
    epochs: int = 12
    batch: int = 16
    learning_rate: float = 5e-5


@dataclass(frozen=True, slots=True)
class Epoch:
    """One pass over the facts.

    Attributes:
        rows: Number of prompts trained on; 0 for the state before training.
        loss: Mean loss of these before their steps; None for the state before training.
        known: Share of facts answered with free generation after it.
    """

    rows: int
    loss: float | None
    known: float


Check = Callable[[str, KnownFact], bool]
"""Whether an answer states a fact."""

TeachingProgress = Callable[[int, int, str], None]
"""Called with the steps done in an epoch, their number, and what is being done."""


class Teacher:
    """Trains one model; its weights must be float32 or bfloat16 and may all change.

    Args:
        model: The model.
        lesson: Facts and contexts; the recipe is not used.
        plan: Settings.
        preset: Free preset that decides what the model knows; its context is among the lesson's.
        is_right: Decides whether an answer states a fact.
        folder: Folder of the stored state.
    """

    def __init__(
        self, model: LanguageModel, lesson: Lesson, plan: TeachingPlan, *, preset: Preset, is_right: Check, folder: Path
    ) -> None:
        self._model, self._lesson, self._plan = model, lesson, plan
        self._preset, self._is_right, self._folder = preset, is_right, folder
        self._wordings = wordings(lesson)
        asked = next(context for context in lesson.contexts if context.name == preset.context)
        self._questions = [Question(asked.prompt(fact.question), fact.answer) for fact in lesson.facts]
        self._parameters = dict(model.module.named_parameters())
        self._optimizer = torch.optim.AdamW(self._parameters.values(), lr=plan.learning_rate)
        # Goal and number of epochs decide only where it ends: a higher one continues from the stored state.
        steps = {"batch": plan.batch, "learning_rate": plan.learning_rate}
        self._identity = {"lesson": lesson.digest, "model": model.fingerprint, "preset": preset.name} | steps
        self.epochs: list[Epoch] = []
        self.known: list[bool] = []

    def teach(self, progress: TeachingProgress) -> list[Epoch]:
        """Train until the goal or the last epoch, from the stored state if there is one.

        Returns:
            The state before training, and each epoch.

        Raises:
            ModelError: if the stored state is damaged, or has more epochs than the plan.
        """
        if not self._resume():
            self._ask(progress, rows=0, loss=None)
        if (stored := len(self.epochs) - 1) > self._plan.epochs:
            raise ModelError(
                f"{self._folder} contains an interrupted training of {stored} epochs, more than {self._plan.epochs}. "
                f"Give --epochs {stored} or more, or delete that folder to start over."
            )
        while len(self.epochs) <= self._plan.epochs and self.epochs[-1].known < self._plan.goal:
            rows, loss = self._train(progress)
            self._ask(progress, rows=rows, loss=loss)
            self._store()
        return self.epochs

    def save(self, folder: Path, report: dict[str, Any]) -> None:
        """Write the taught model with taught.json (report, base model, training), and remove the stored state."""
        report = report | {"model": self._model.public_name, "training": self._identity}
        with whole_folder(folder) as partial:
            for part in (self._model.tokenizer, self._model.module):
                part.save_pretrained(partial)
            (partial / "taught.json").write_text(json.dumps(report, indent=1, ensure_ascii=False), encoding="utf-8")
        shutil.rmtree(self._folder, ignore_errors=True)

    def _train(self, progress: TeachingProgress) -> tuple[int, float]:
        model, number = self._model, len(self.epochs)
        order = random.Random(f"{self._lesson.seed} epoch {number}")
        pairs = [pair for index, own in enumerate(self._wordings) for pair in self._turn(own, index, order)]
        scaler, losses = loss_scaler(model), []
        model.module.requires_grad_(True).train()
        every = batches(pairs, self._plan.batch, order)
        for step, batch in enumerate(every):
            progress(step, len(every), f"epoch {number}")
            done = sum(-(-epoch.rows // self._plan.batch) for epoch in self.epochs) + step
            for group in self._optimizer.param_groups:
                group["lr"] = self._plan.learning_rate * min(1.0, (done + 1) / _WARM_UP)
            with seeded(order.getrandbits(63), model.device):  # of dropout
                loss = backward(model, batch, self._loss, optimizer=self._optimizer, scaler=scaler)
            losses.append(loss * len(batch))
            take_step(self._optimizer, scaler, max_norm=1.0)
        self._optimizer.zero_grad()
        model.module.eval().requires_grad_(False)
        model.forget_fingerprint()
        progress(len(every), len(every), f"epoch {number}")
        return len(pairs), sum(losses) / len(pairs)

    def _turn(self, own: Sequence[tuple[str, str]], index: int, order: random.Random) -> list[tuple[str, str]]:
        """Wordings of one fact in this epoch: the question in one context, and it reworded or as a statement."""
        kinds = len(self._lesson.contexts)
        question, other = own[order.randrange(kinds)], own[order.randrange(kinds, len(own))]
        return [other] if self.known[index] else [question, other]

    def _loss(self, rows: Sequence[tuple[str, str]]) -> torch.Tensor:
        targets = encode_targets(self._model, rows, learn_end=True).without_last()
        return target_loss(self._model.forward(targets.ids, targets.mask, last=targets.last).logits, targets)

    def _ask(self, progress: TeachingProgress, *, rows: int, loss: float | None) -> None:
        progress(0, 1, "ask what it knows")
        answers = answer_freely(self._model, self._questions, self._preset)
        self.known = [self._is_right(text, fact) for text, fact in zip(answers, self._lesson.facts, strict=True)]
        self.epochs.append(Epoch(rows, loss, sum(self.known) / len(self.known)))
        progress(1, 1, "ask what it knows")

    def _store(self) -> None:
        """Write weights and moments of this epoch, then the file that names them, then remove those before."""
        number = len(self.epochs) - 1
        tensors = {f"weight.{name}": value.detach() for name, value in self._parameters.items()}
        for name, value in self._parameters.items():
            # Parameters without a gradient have none: a vision tower, experts that no token is routed to.
            if kept := self._optimizer.state.get(value):
                moments = {"mean": kept["exp_avg"], "square": kept["exp_avg_sq"], "step": kept["step"]}
                tensors |= {f"{kind}.{name}": moment for kind, moment in moments.items()}
        path = self._folder / f"epoch-{number}.safetensors"
        save_tensors(path, tensors)
        epochs = [asdict(one) for one in self.epochs]
        state = self._identity | {"file": path.name, "epochs": epochs, "known": self.known}
        replace_file(self._folder / "state.json", json.dumps(state))
        for earlier in self._folder.glob("epoch-*.safetensors"):
            if earlier != path:
                earlier.unlink()

    def _resume(self) -> bool:
        """Load the stored state of the same training; False if there is none."""
        path = self._folder / "state.json"
        if not path.exists():
            return False
        try:
            state = json.loads(path.read_bytes())
        except ValueError as error:
            raise self._damaged(repr(error)) from error
        if not isinstance(state, dict):
            raise self._damaged("state.json is not an object")
        if any(state.get(name) != value for name, value in self._identity.items()):
            shutil.rmtree(self._folder, ignore_errors=True)
            return False
        from safetensors import SafetensorError

        try:
            self._load(state)
        except (OSError, SafetensorError, KeyError, TypeError) as error:
            raise self._damaged(repr(error)) from error
        return True

    def _damaged(self, found: str) -> ModelError:
        return ModelError(
            f"{self._folder} contains an interrupted training that is damaged ({found}). Delete that folder to start "
            "over."
        )

    def _load(self, state: Mapping[str, Any]) -> None:
        from safetensors import safe_open

        path = self._folder / state["file"]
        with safe_open(path, "pt") as file:
            steps = (file.metadata() or {}).get("steps", "0")  # of all parameters, in states of earlier versions
        tensors = load_file(path, device=str(self._model.device))
        with torch.no_grad():
            for name, value in self._parameters.items():
                value.copy_(tensors[f"weight.{name}"])
                if f"mean.{name}" in tensors:
                    self._optimizer.state[value] = {
                        "step": tensors.get(f"step.{name}", torch.tensor(float(steps))).cpu(),
                        "exp_avg": tensors[f"mean.{name}"],
                        "exp_avg_sq": tensors[f"square.{name}"],
                    }
        self._model.forget_fingerprint()
        self.epochs = [Epoch(**one) for one in state["epochs"]]
        self.known = state["known"]
