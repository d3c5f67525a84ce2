"""Evaluates every probe of cases under every preset and writes the answers to the run folder.

Batches depend on the questions alone, and an interrupted batch is evaluated again as a whole, so a resumed run computes
exactly the same as an uninterrupted one. Large numbers of cases are worded and evaluated in parts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from kgedit.editing.editor import Editor, Prefix
from kgedit.llm.backends.contract import Backend
from kgedit.llm.contexts import Context
from kgedit.llm.generation import AnswerCache, PresetQuestion, Question, longest
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.replies import Reply
from kgedit.records.cases import LOCALITY_AXES, Case, Probe
from kgedit.records.runs import Answer, ModelState, Neighbour, Preset
from kgedit.runs.run_folder import AnswerKey, RunFolder, WrittenKeys

_AT_ONCE = 20_000
"""Number of probes worded and planned together, which bounds memory."""

Answered = Callable[[int], None]
"""Called with the number of further questions that have been answered."""


@dataclass(frozen=True, slots=True)
class AskedProbe:
    """One probe of one case."""

    case: Case
    probe: Probe


@dataclass(frozen=True, slots=True)
class WordedProbe:
    """One probe of one case, worded for one preset."""

    asked: AskedProbe
    prefix: Prefix
    question: Question
    preset: Preset

    @property
    def put(self) -> PresetQuestion:
        """Question to send to the model."""
        return PresetQuestion(self.question, self.preset)


class Evaluator:
    """Evaluates one model for one run.

    Args:
        model: The model in its current state; for a remote model, its local description.
        backend: Backend that answers.
        presets: Presets to evaluate.
        contexts: Contexts by preset, as worded by the model's tokenizer.
        folder: Run folder for the answers, including existing ones.
        cache: Answers of the unedited model.
    """

    def __init__(
        self,
        model: LanguageModel,
        backend: Backend,
        presets: Sequence[Preset],
        *,
        contexts: dict[str, Context],
        folder: RunFolder,
        cache: AnswerCache,
    ) -> None:
        self._model = model
        self._backend = backend
        self._presets = presets
        self._contexts = contexts
        self._folder = folder
        self._cache = cache
        self._written = WrittenKeys(folder.answer_keys())

    def count(self, cases: Sequence[Case]) -> int:
        """Number of questions that `evaluate` asks for these cases."""
        return sum(len(probes_under(case, preset)) for preset in self._presets for case in cases)

    def has(self, case: Case, state: ModelState) -> bool:
        """Whether every probe of a case has its answers in a state."""
        return all(
            _key(state, case, probe, preset) in self._written
            for preset in self._presets
            for probe in probes_under(case, preset)
        )

    def evaluate(
        self, cases: Sequence[Case], editor: Editor[Any] | None, *, state: ModelState, advance: Answered
    ) -> None:
        """Evaluate every question without an answer.

        Args:
            editor: Editor whose prefixes are prepended to the prompts; None before any edit.
            state: State of the model. Questions whose prompt no edit changes, asked of an unchanged model, are answered
                from the cache if it has them.
            advance: Called after each batch.
        """
        for some in _chunks(cases):
            self._evaluate(some, editor, state, advance)

    def thoughts(self, cases: Sequence[Case]) -> dict[str, dict[str, str]]:
        """Preset with reasoning -> question of an edit -> what the unedited model thinks about it.

        Replies are those of `evaluate` before any edit, or are computed and cached in the same way.
        """
        found: dict[str, dict[str, str]] = {}
        for preset in self._presets:
            if not preset.thinking_tokens:
                continue
            own = found.setdefault(preset.name, {})
            items = [
                word(self._model, AskedProbe(case, probe), preset, context=self._contexts[preset.name])
                for case in cases
                for probe in case.probes
                if probe.axis == "update"
            ]
            for batch in self._backend.plan([item.put for item in items]):
                replies = cached_replies(self._backend, [items[index].put for index in batch], self._cache)
                questions = (items[index].asked.probe.question for index in batch)
                own.update((question, reply.thoughts) for question, reply in zip(questions, replies, strict=True))
        return found

    def _evaluate(
        self, cases: Sequence[Case], editor: Editor[Any] | None, state: ModelState, advance: Answered
    ) -> None:
        asked = {
            preset.name: [AskedProbe(case, probe) for case in cases for probe in probes_under(case, preset)]
            for preset in self._presets
        }
        questions = list(dict.fromkeys(item.probe.question for items in asked.values() for item in items))
        prefixes = dict(zip(questions, editor.prefixes(questions) if editor else (), strict=editor is not None))
        changed = editor is not None and editor.capabilities.changes_model

        def prefix_of(item: AskedProbe) -> Prefix:
            return prefixes.get(item.probe.question, _NO_PREFIX)

        done: set[AnswerKey] = set()
        for presets, unedited in self._asked_together():
            items = [
                word(self._model, item, preset, context=self._contexts[preset.name], prefix=prefix_of(item))
                for preset in presets
                for item in asked[preset.name]
                if unedited != (changed or bool(prefix_of(item).parts))
            ]
            for batch in self._backend.plan([item.put for item in items]):
                self._answer([items[index] for index in batch], state, unedited=unedited, done=done)
                advance(len(batch))

    def _asked_together(self) -> list[tuple[Sequence[Preset], bool]]:
        """Presets that share batches, and whether these are the questions that no edit affects.

        Answers to those are cached, so they must not depend on the other presets of a run.
        """
        return [*(([preset], True) for preset in self._presets), (self._presets, False)]

    def _answer(self, items: list[WordedProbe], state: ModelState, *, unedited: bool, done: set[AnswerKey]) -> None:
        keys = [_key(state, item.asked.case, item.asked.probe, item.preset) for item in items]
        missing = [key not in done and key not in self._written for key in keys]
        if not any(missing):
            return
        asked = [item.put for item in items]
        replies = cached_replies(self._backend, asked, self._cache) if unedited else self._backend.ask(asked)
        answers = [
            to_answer(item, reply, state) for item, reply, new in zip(items, replies, missing, strict=True) if new
        ]
        self._folder.add_answers(answers)
        done.update(keys)


def _chunks(cases: Sequence[Case]) -> Iterator[list[Case]]:
    """The cases in order, in parts as large as can be worded and planned together."""
    some: list[Case] = []
    probes = 0
    for case in cases:
        some.append(case)
        probes += len(case.probes)
        if probes >= _AT_ONCE:
            yield some
            some, probes = [], 0
    if some:
        yield some


def cached_replies(backend: Backend, asked: Sequence[PresetQuestion], cache: AnswerCache) -> list[Reply]:
    """Replies of the unedited model to one batch: all from the cache, or else all computed, as in an uninterrupted run.

    Replies from the cache have 0 seconds, because their time is that of another run, perhaps on another machine. If a
    reply already exists, the first one counts: another batch gives probabilities that differ in their last digits, and
    a resumed run would find the first.
    """
    kept = [reply for one in asked if (reply := cache.get(one.question, one.preset)) is not None]
    if len(kept) == len(asked):
        return [replace(reply, seconds=0.0) for reply in kept]
    replies = backend.ask(asked)
    for one, reply in zip(asked, replies, strict=True):
        cache.add([one.question], [reply], one.preset)
    return [
        replace(cache.get(one.question, one.preset) or reply, seconds=reply.seconds)
        for one, reply in zip(asked, replies, strict=True)
    ]


_NO_PREFIX = Prefix()
_NOTHING_FED = Question(prompt="", gold="")
_ASKS_FOR_THE_EDIT = ("update", "rephrase", "personas")


def probes_under(case: Case, preset: Preset) -> tuple[Probe, ...]:
    """Probes of a case under a preset; with clozes, the case's other clozes replace rephrasings.

    Generalization is then measured over the four further clozes of WikiFactDiff (section 5), if the case has them.
    """
    probes = _worded_probes(case, preset)
    return tuple(probe for probe in probes if probe.axis in preset.axes) if preset.axes else probes


def _worded_probes(case: Case, preset: Preset) -> tuple[Probe, ...]:
    others = tuple(cloze for cloze in case.clozes if cloze != case.cloze)
    if preset.wording != "cloze" or not others:
        return case.probes
    update = next(probe for probe in case.probes if probe.axis == "update")
    clozes = tuple(Probe("rephrase", cloze, update.answers, update.facts, expires=update.expires) for cloze in others)
    return (update, *clozes, *(probe for probe in case.probes if probe.axis not in ("update", "rephrase")))


def word(
    model: LanguageModel, asked: AskedProbe, preset: Preset, *, context: Context, prefix: Prefix = _NO_PREFIX
) -> WordedProbe:
    """Text of a probe as sent: in its context, after as much of the prefix as the model's context length allows."""
    case, probe = asked.case, asked.probe
    forced = preset.is_forced and probe.axis in _ASKS_FOR_THE_EDIT
    fed = Question(
        prompt="",
        gold=probe.answers[0],
        old=_others(case.old_answers, probe) if forced else (),
        static=_others(case.static_answers, probe) if forced else (),
        alternatives=_others(case.alternatives, probe) if forced else (),
    )
    cloze = _cloze(case, probe) if preset.wording == "cloze" else ""
    kept, question = fit_prefix(model, prefix, cloze or probe.question, context=context, fed=fed, preset=preset)
    return WordedProbe(asked, kept, question, preset)


def _cloze(case: Case, probe: Probe) -> str:
    return case.cloze if probe.axis == "update" else probe.cloze


def _others(answers: Sequence[str], probe: Probe) -> tuple[str, ...]:
    """Answers other than those of a probe."""
    return tuple(dict.fromkeys(answer for answer in answers if answer and answer not in probe.answers))


def fit_prefix(
    model: LanguageModel,
    prefix: Prefix,
    asked: str,
    *,
    context: Context,
    preset: Preset,
    fed: Question = _NOTHING_FED,
) -> tuple[Prefix, Question]:
    """Prepend as much of a prefix to a question as fits into the model's context length, at least its last part.

    Leaving out parts shortens the prompt, so the minimum number to leave out is found by bisection.
    """

    def question(left_out: int) -> Question:
        return replace(fed, prompt=context.prompt(asked, facts=prefix.without(left_out).worded(context)))

    def fits(left_out: int) -> bool:
        return model.positions is None or longest(model, question(left_out), preset) <= model.positions

    left_out = bisect_left(range(max(0, len(prefix.parts) - 1)), True, key=fits)
    return prefix.without(left_out), question(left_out)


def _key(state: ModelState, case: Case, probe: Probe, preset: Preset) -> AnswerKey:
    return AnswerKey(state, case.timestep, case.case_id, probe.axis, probe.question, preset.name)


def to_answer(item: WordedProbe, reply: Reply, state: ModelState) -> Answer:
    """Line of answers.jsonl for a reply."""
    case, probe, preset = item.asked.case, item.asked.probe, item.preset
    return Answer(
        model_state=state,
        timestep=case.timestep,
        case_id=case.case_id,
        relation=case.fact.property,
        axis=probe.axis,
        preset=preset.name,
        context=preset.context,
        generation=preset.generation,
        truncation=preset.truncation,
        question=probe.question,
        prompt=item.question.prompt,
        answers=probe.answers,
        retrieved=item.prefix.retrieved,
        second_case_id=probe.second_case_id,
        expires=probe.expires,
        neighbour=_neighbour(probe),
        scenario=case.scenario if probe.axis in _ASKS_FOR_THE_EDIT else None,
        chain=probe.chain,
        **asdict(reply),
    )


def _neighbour(probe: Probe) -> Neighbour | None:
    if probe.axis not in LOCALITY_AXES or not probe.facts:
        return None
    fact = probe.facts[0]
    return Neighbour(
        subject=fact.subject,
        label=fact.subject_label,
        similarity=probe.similarity,
        popularity=probe.popularity,
        basis=probe.basis,
    )
