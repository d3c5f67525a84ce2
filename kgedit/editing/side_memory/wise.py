"""`wise`: stores edits in side copies of one MLP matrix, and routes each prompt to a copy or to the matrix (WISE).

Edits fill one copy after another, each in a separate random share of the entries; after every `merge_every` edits the
copies are merged by TIES.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import astuple, replace
from typing import Any

import torch
from transformers.activations import ACT2FN

from kgedit.editing.editor import (
    NO_RUN,
    Advance,
    AppliedEdits,
    Capabilities,
    Deviation,
    Deviations,
    Editor,
    EditorState,
    RunContext,
)
from kgedit.editing.side_memory.copy_training import CopyTraining, EditedPrompts, Replay, TrainingScale
from kgedit.editing.side_memory.side_copies import (
    Distance,
    Router,
    SeenTokens,
    SideCopy,
    mean_of,
    merged,
    product,
    random_mask,
    sample_of,
    slerp_midpoint,
)
from kgedit.editing.side_memory.subject_masks import subject_failures, subject_span, tokens_within
from kgedit.editing.training import seed_for, seeded
from kgedit.errors import SpecError
from kgedit.hparams.memory_based import WiseSettings
from kgedit.llm.callers import InstalledHook
from kgedit.llm.contexts import Context
from kgedit.llm.decoding import continue_words, sample_random_prefixes
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.surgery.forward_above import read_and_written
from kgedit.llm.surgery.layers import check_layer, mlp_matrices
from kgedit.llm.surgery.matrices import keep_loaded
from kgedit.llm.training import TargetBatch, encode_targets
from kgedit.records.cases import Case, KnownFact

_WISE_ON_TINY = "`tiny`, 20 edits one at a time, update, rephrase, personas and unchanged in %"


WISE_DEVIATIONS = Deviations((
    Deviation(
        what="tokens that the distance of an edit is the mean of",
        published="prompt, target and padding, in training; at the prompt, then token by token, when decoding",
        ours="the prompt's tokens (`counted: read` for those of training); the choice is made once and holds for the "
        "whole answer",
        why="targets are not known when a prompt is routed, how much is padding depends on the longest text beside it, "
        "and an answer would change copies between its tokens",
        effect=f"{_WISE_ON_TINY}: over the prompt's 100, 79, 75, 90; trained over all 100, 79, 85, 100",
    ),
    Deviation(
        what="tokens that the loss of an answer is divided by",
        published="those of the answer and one more, the prompt's last, whose own loss is 0 (in the code)",
        ours="those of the answer (`one_token_more` as published)",
        why="beside the margins an answer of one token would count half",
        effect=f"{_WISE_ON_TINY}: 100, 79, 75, 90; by one token more 100, 79, 75, 95",
    ),
    Deviation(
        what="threshold of a copy",
        published="least over edits of the mean distance of an edit's prompts, before the last step if there are no "
        "more, times the ratio",
        ours="least over all prompts of all edits, after the last step, times the ratio (`threshold: mean`)",
        why="the bare prompt's distance can lie below the mean by more than the ratio; the edit is then not answered",
        effect=f"{_WISE_ON_TINY}: by the mean 65, 44, 35, 100; by the least 100, 79, 75, 90; by the mean, trained with "
        "the tokens and the loss of the code 40, 34, 50, 100",
    ),
    Deviation(
        what="the texts ahead of an edit's prompts",
        published="the model continues five words, 5 and 10 tokens, once per process, whatever the model",
        ours="the same words and lengths, once per editor, on its own unedited model",
        why="a second model in the process would get the first one's texts",
        effect="none where a process has one model",
    ),
    Deviation(
        what="unrelated prompts",
        published="one locality question of the data set for each edit",
        ours="known facts that no probe asks for, or texts that the model writes",
        why="the evaluation asks the locality questions",
        effect=f"{_WISE_ON_TINY}: 100, 79, 75, 90; with each edit's own locality question the same",
    ),
    Deviation(
        what="unit of alpha, beta, gamma, learning rate and weight of the margins, for models without published values",
        published="absolute numbers for models of 4,096 units",
        ours="a hundredth of the layer's mean output, a learning rate by the length of what it reads",
        why="distances are as large as a model's activations",
        effect=f"{_WISE_ON_TINY}: derived 100, 79, 75, 90; all 1 as published 94, 52, 58, 100",
    ),
    Deviation(
        what="weight decay",
        published="1e-5 times the learning rate, about 1, a step, off the whole copy and not its masked entries alone",
        ours="the same 1e-5 a step (`decay`), whatever the learning rate",
        why="a derived learning rate is not 1",
        effect=f"{_WISE_ON_TINY}: 100, 79, 75, 90; with 8.5e-4 a step, 1e-5 times the derived learning rate, the same",
    ),
    Deviation(
        what="replay of past edits (appendix B.3)",
        published="each step another edit of each merged copy, in all its prompts, to stay within 5, and one since the "
        "last merge, to exceed 20; off in every published configuration",
        ours="`replay`: beside each edit one of each, in its bare prompt, to stay within alpha and to exceed beta",
        why="what the matrix reads for them is then computed once; alpha and beta have the model's unit",
        effect="none by default: neither replays",
    ),
    Deviation(
        what="mask of the subject's tokens",
        published="whenever the unrelated prompt is the subject itself (in the code)",
        ours="by `subject_mask`, off by default; edits whose question does not name the subject are reported as failed",
        why="unrelated prompts here are never part of an edit's",
        effect=f"{_WISE_ON_TINY}: without 100, 79, 75, 90; with it the same",
    ),
    Deviation(
        what="which copy a prompt goes to, of several",
        published="none, where the copy being filled moves it farthest without reaching its own threshold",
        ours="the one that moves it farthest of those whose threshold it reaches",
        why="a threshold that is not reached says that a copy has nothing to do with a prompt",
        effect="none up to 500 edits: there is one copy",
    ),
    Deviation(
        what="merging by `linear`, and by `slerp`",
        published="the first copy alone; the original matrix and the first copy (in the code)",
        ours="the weighted sum of all; the two copies that a merge takes, refused for more",
        why="the others would be lost",
        effect="none by default: both merge by TIES",
    ),
))  # fmt: skip


_AT_ONCE = 32
_WRITTEN = 32
_WRITTEN_TOKENS = 12
_TINY = 1e-12
_PACE = 200.0
_WORDS = ("I", "You", "Because", "Yes", "Q: ")
"""First words of the texts before an edit's prompts."""


class Wise(Editor[WiseSettings]):
    """Trains side copies with a margin between edits and unrelated prompts; the model's own matrix does not change.

    A prompt's distance is the distance by which a copy moves the matrix's output, averaged over the prompt's tokens
    (the activation of equation 2 of the paper). Each edit is trained on its bare prompt and after texts generated by
    the model. Unrelated prompts are known facts that no probe of an edit asks for, or texts generated by the model;
    never the edits' locality probes, which the evaluation uses.
    """

    capabilities = Capabilities(
        protocols=("sequential", "single", "per_timestep"),
        changes_forward=True,
        reads_weights=True,
        needs_known_facts=True,
        source="WISE, arXiv 2405.14768",
    )
    deviations = WISE_DEVIATIONS
    settings_type = WiseSettings

    def __init__(self, model: LanguageModel, settings: WiseSettings, *, contexts: Sequence[Context], seed: int) -> None:
        super().__init__(model, settings, contexts=contexts, seed=seed)
        if settings.merge == "slerp" and not (settings.retrieve and settings.merge_every == 2 * settings.shard):
            raise SpecError(["settings.merge: slerp merges two copies: give merge_every=2*shard and retrieve=true"])
        self.layer = check_layer(model, settings.layer)
        self._matrix = mlp_matrices(model, [self.layer], settings.matrix)[0].module
        keep_loaded(self._matrix)  # its weight is used in every step
        self._distance = Distance(self._matrix, _activation_of(model) if settings.distance == "activated" else None)
        self.router = Router(model, self._distance, long=settings.long)
        self._known: list[KnownFact] = []
        self._prefixes: list[str] | None = None
        self._texts: list[str] = []
        self._hook: InstalledHook | None = None
        self._begin()

    def _begin(self) -> None:
        """Reset to the state before any edit."""
        self.router.copies = []
        self._scale: TrainingScale | None = None
        self._in_copy = 0  # edits in the newest copy; 0 if the next edit starts one
        self._since_merge = 0
        self._opened = 0

    def prepare(self, known: Sequence[KnownFact], *, advance: Advance) -> None:  # noqa: ARG002 - the contract's shape
        """Store the facts from which unrelated prompts are sampled."""
        self._known = list(dict.fromkeys(known))

    def apply(self, cases: Sequence[Case], run: RunContext = NO_RUN) -> AppliedEdits:
        """Train batch by batch; the loss is the mean over batches."""
        failures = subject_failures(cases) if self.settings.subject_mask else ()
        failed = {failure.case_id for failure in failures}
        cases = [case for case in cases if case.case_id not in failed]
        self._listen(False)
        losses, done, free = [], 0, self._unrelated(cases)
        while done < len(cases):
            room = min(self.settings.batch, self.settings.shard - self._in_copy)
            batch = cases[done : done + room]
            losses.append(self._learn(batch, self._draw(batch, free)))
            done += len(batch)
            self._count(len(batch))
            run.progress(done / len(cases))
        self._listen(True)
        return AppliedEdits(loss=sum(losses) / len(losses) if losses else None, failures=failures)

    def restore(self) -> None:
        """Remove the side copies."""
        self._listen(False)
        self._begin()

    def state(self) -> EditorState:
        """Return side copies and counts."""
        copies = self.router.copies
        tensors = {f"{number}": copy.change.clone() for number, copy in enumerate(copies)}
        record = {
            "thresholds": [copy.threshold for copy in copies],
            "prompts": [list(copy.prompts) for copy in copies],
            "shortest": [copy.shortest for copy in copies],
            "counts": [self._in_copy, self._since_merge, self._opened],
            "scale": None if self._scale is None else list(astuple(self._scale)),
        }
        return EditorState(tensors, record)

    def load_state(self, state: EditorState) -> None:
        """Load side copies and counts."""
        record, device = state.record, self._matrix.weight.device
        shortest = record.get("shortest") or [self._shortest(prompts) for prompts in record["prompts"]]
        kept = zip(record["thresholds"], record["prompts"], shortest, strict=True)
        self.router.copies = [
            SideCopy(state.tensors[f"{number}"].to(device), threshold, tuple(prompts), least)
            for number, (threshold, prompts, least) in enumerate(kept)
        ]
        self._in_copy, self._since_merge, self._opened = record["counts"]
        self._scale = TrainingScale(*record["scale"]) if record["scale"] else None
        self._listen(True)

    def _learn(self, cases: Sequence[Case], unrelated: Sequence[str]) -> float:
        """Run gradient descent on the newest copy; returns the last loss of the targets."""
        settings, (copy, mask) = self.settings, self._newest()
        ahead = ["", *(f"{prefix} " for prefix in self.prefixes_of_prompts())]
        asked = [
            [(context.prompt(before + case.question), case.answer) for before in ahead]
            for case in cases
            for context in self.contexts
        ]
        targets = encode_targets(self.model, [pair for pairs in asked for pair in pairs], learn_end=settings.learn_end)
        far = self._read(
            [context.prompt(question) for question in unrelated for context in self.contexts],
            width=targets.ids.shape[1] if settings.counted == "read" else 0,
        )
        scale = self._scale = self._scale or self._measure(far)
        if settings.counted == "read":
            far = replace(far, counted=torch.ones_like(far.counted))
        else:
            targets = targets.without_last()
        subjects = self._subjects(cases, ahead, targets) if settings.subject_mask else None
        edits = EditedPrompts(targets, len(ahead), subjects)
        training = CopyTraining(self.model, self.layer, self._distance, settings, scale)
        learned = training.run(copy.change, mask, edits, unrelated=far, replay=self._replay(cases))
        copy.change = learned.change
        bare = [pairs[0][0] for pairs in asked]
        shortest = min(len(self.model.encode(prompt)) for prompt in bare)
        copy.add(bare, shortest=shortest, most=self._kept)
        copy.threshold = min(copy.threshold, self._threshold(learned.distances))
        return learned.loss

    def _subjects(self, cases: Sequence[Case], ahead: Sequence[str], targets: TargetBatch) -> torch.Tensor:
        """Mask of the tokens of the cases' subjects, in the order of the targets."""
        found = [
            subject_span(case, context, ahead=before) for case in cases for context in self.contexts for before in ahead
        ]
        return tokens_within(self.model, found, targets)

    def prefixes_of_prompts(self) -> list[str]:
        """Texts before an edit's prompts other than the bare one; generated by the model at the first call."""
        if self._prefixes is None:
            written = [text for tokens in (5, 10) for text in continue_words(self.model, _WORDS, tokens=tokens)]
            half = self.settings.prefixes // 2
            self._prefixes = [*written[: len(_WORDS)][: self.settings.prefixes - half], *written[len(_WORDS) :][:half]]
        return self._prefixes

    @property
    def _kept(self) -> int:
        """Maximum number of prompts stored in a copy."""
        return max(self.settings.remeasured, self.settings.replay)

    def _replay(self, batch: Sequence[Case]) -> Replay | None:
        """A past edit of each earlier copy, and one since the last merge; None without replay."""
        settings = self.settings
        fresh = -(-(self._since_merge + 1) // settings.shard)
        earlier = [copy.prompts for copy in self.router.copies[:-fresh] if copy.prompts]
        if not settings.replay or not settings.retrieve or not earlier:
            return None
        draw = random.Random(seed_for(self.seed, batch))
        others = [draw.choice(prompts) for prompts in earlier]
        own = [prompt for copy in self.router.copies[-fresh:] for prompt in copy.prompts]
        return Replay(self._read(others), self._read([draw.choice(own)]) if own else None)

    def _newest(self) -> tuple[SideCopy, torch.Tensor]:
        """The copy for the next edit, and the mask of the entries that it may change."""
        if self._in_copy == 0:
            zeros = torch.zeros_like(self._matrix.weight, dtype=torch.float32)
            self.router.copies.append(SideCopy(zeros, self._first_threshold()))
            self._opened += 1
        copy = self.router.copies[-1]
        return copy, random_mask(copy.change, share=self.settings.share, seed=self.seed * 1_000_003 + self._opened)

    def _count(self, edits: int) -> None:
        """Close a full copy, and merge copies if there were enough edits since the last merge."""
        self._in_copy += edits
        self._since_merge += edits
        if self._in_copy >= self.settings.shard:
            self._in_copy = 0
        if self._since_merge >= self.settings.merge_every:
            self._merge()

    def _first_threshold(self) -> float:
        """Threshold of a new copy; with one merged copy for all edits it is that of all edits."""
        own = [] if self.settings.retrieve else [copy.threshold for copy in self.router.copies]
        return min(own, default=torch.inf)

    def _merge(self) -> None:
        """Replace the copies filled since the last merge by one; or, without `retrieve`, all copies."""
        settings = self.settings
        fresh = -(-self._since_merge // settings.shard)
        older, filled = self.router.copies[:-fresh], self.router.copies[-fresh:]
        weights = [1 / fresh] * fresh
        if older and not settings.retrieve:
            older, filled, weights = [], [*older, *filled], [0.6, *(0.4 / fresh for _ in filled)]
        changes = [copy.change for copy in filled]
        if settings.merge == "slerp":
            change = slerp_midpoint(changes, self._matrix.weight.detach().float())
        else:
            with seeded(self.seed * 1_000_003 + self._opened, self.model.device):
                change = merged(changes, weights, how=settings.merge, density=settings.density)
        copy = SideCopy(
            change,
            min(copy.threshold for copy in filled),
            sample_of(tuple(prompt for copy in filled for prompt in copy.prompts), self._kept),
            min(copy.shortest for copy in filled),
        )
        if prompts := sample_of(copy.prompts, settings.remeasured):
            copy.threshold = min(
                self._threshold(self._distances(change, prompts[start : start + _AT_ONCE])[:, None])
                for start in range(0, len(prompts), _AT_ONCE)
            )
        self.router.copies = [*older, copy]
        self._in_copy, self._since_merge = 0, 0

    def _unrelated(self, cases: Sequence[Case]) -> list[str]:
        """Prompts that are unrelated to every one of these edits."""
        probed = {(fact.subject, fact.property) for case in cases for probe in case.probes for fact in probe.facts}
        probed |= {(case.fact.subject, case.fact.property) for case in cases}
        free = [known.question for known in self._known if (known.fact.subject, known.fact.property) not in probed]
        return free or self._written()

    def _draw(self, batch: Sequence[Case], free: Sequence[str]) -> list[str]:
        """Sample one unrelated prompt for each edit."""
        return random.Random(seed_for(self.seed, batch)).choices(free, k=len(batch))

    def _written(self) -> list[str]:
        """Beginnings of texts generated by the model: unrelated prompts if there are no known facts."""
        if not self._texts:
            random_prefixes = sample_random_prefixes(self.model, _WRITTEN, tokens=_WRITTEN_TOKENS, seed=self.seed)
            self._texts = [text for ids in random_prefixes if (text := self.model.decode(ids))]
        return self._texts

    def _read(self, prompts: Sequence[str], *, width: int = 0) -> SeenTokens:
        """Inputs and outputs of the matrix for prompts, padded to at least `width` columns."""
        ids, mask = self.model.pad_left([self.model.encode(prompt) for prompt in prompts], width=width)
        inputs, outputs = read_and_written(self.model, self._matrix, ids, mask)
        return SeenTokens(inputs, outputs, mask.bool().to(inputs.device))

    def _distances(self, change: torch.Tensor, prompts: Sequence[str]) -> torch.Tensor:
        """Distance by which a copy moves each prompt."""
        seen = self._read(prompts)
        return mean_of(self._distance.of_copy(seen, change), seen.counted)

    def _threshold(self, distances: torch.Tensor) -> float:
        """Threshold of a copy, from the distances of its edits' prompts, edits x prompts."""
        # The same prompt in another batch differs in its last bits; the ratio leaves a margin for that.
        of_edits = distances if self.settings.threshold == "least" else distances.mean(1)
        return max(float(of_edits.min()) * self.settings.ratio, _TINY)

    def _shortest(self, prompts: Sequence[str]) -> int:
        """Number of tokens of the shortest prompt, for memories of versions that did not store it."""
        return min((len(self.model.encode(prompt)) for prompt in prompts), default=0)

    def _measure(self, seen: SeenTokens) -> TrainingScale:
        """Measure the scale from unrelated prompts of the first edits, unless it is set."""
        settings = self.settings
        written = product(self._matrix, seen.inputs, self._matrix.weight.detach().float())
        length = float(torch.linalg.vector_norm(written, dim=-1)[seen.counted].mean())
        whole = float(self._distance.of(torch.zeros_like(written), written)[seen.counted].mean())
        squared = float(seen.inputs.square().sum(-1)[seen.counted].mean())
        unit = settings.unit or whole / 100
        rate = settings.learning_rate or _PACE / squared
        # One step along the gradient of a distance then changes it by about one unit, so no step skips a margin. The
        # activation shrinks gradient and distance by the same factor, and the step changes that much less.
        weight = settings.margin_weight or unit / (rate * settings.share * squared * (whole / length) ** 2)
        return TrainingScale(unit, rate, weight)

    def _listen(self, listening: bool) -> None:
        if self._hook is not None:
            self._hook.remove()
        self._hook = InstalledHook(self.model, self._matrix, self.router) if listening else None


def _activation_of(model: LanguageModel) -> Any:
    """Activation function named in a model's configuration.

    Raises:
        SpecError: if the configuration names none.
    """
    config = model.module.config.get_text_config()
    for key in ("hidden_act", "hidden_activation", "activation_function", "activation"):
        if isinstance(name := getattr(config, key, None), str) and name in ACT2FN:
            return ACT2FN[name]
    raise SpecError(["settings.distance: the model's configuration names no activation function; give distance=plain"])
