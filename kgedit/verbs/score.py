"""`score`: scores the stored answers of finished runs by further metrics, without the edited model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kgedit.errors import ModelError
from kgedit.progress import Steps
from kgedit.verbs.live_progress import one_step, step_line
from kgedit.verbs.options import AnyFile, AnyFolder, ManyPaths, Names, Verb, argument, flag, options, python_only
from kgedit.verbs.shared_options import CostOptions

if TYPE_CHECKING:
    from kgedit.llm.remote.client import ChatReplies, CostEstimate
    from kgedit.runs.judging import RemoteJudge


@dataclass(frozen=True, slots=True)
class ScoredRuns:
    """Result of `score`.

    Attributes:
        files: Path of each run's scores.json.
        asked: Cost of a server's verdicts; None without a judge behind a server.
        classes: Cost of its classes of errors; None without them.
        judged: Number of distinct answers judged by a local model; None without one.
        measured: Number of distinct answers measured by an encoder; None without one.
    """

    files: tuple[Path, ...]
    asked: ChatReplies | None = None
    classes: ChatReplies | None = None
    judged: int | None = None
    measured: int | None = None


@options
class JudgeOptions(CostOptions):
    """The judge of `--metric judge`, and its budget."""

    judge_model: str | None = flag(
        default=None,
        group="Model",
        metavar="NAME",
        help="Model of an OpenAI-compatible server, by its name there.",
    )
    judge_url: str | None = flag(
        default=None, group="Model", metavar="URL", help="The server, with /v1. Default: OpenAI's."
    )
    judge_key: str = flag(
        default="OPENAI_API_KEY",
        group="Model",
        metavar="VARIABLE",
        help="Environment variable that holds the server's key.",
    )
    judge_local: str | None = flag(
        default=None, group="Model", metavar="NAME", help="Instead, a local model; see --model of run-edit."
    )
    judge_tokenizer: str | None = flag(
        default=None,
        group="Model",
        rare=True,
        metavar="NAME",
        help="For --estimate: local model with the judge's tokenizer; else four characters count as a token.",
    )
    prompts: AnyFolder | None = flag(
        default=None,
        group="Model",
        rare=True,
        help="Your own verdict.txt or error_class.txt, in place of the built-in ones under prompts/judge.",
    )
    judge_errors: bool = flag(
        default=False,
        group="Model",
        help="Also let a judge behind a server classify the error of each answer that it calls wrong.",
    )

    @property
    def prompts_folder(self) -> Path | None:
        """Folder of the user's prompt files; None means the built-in ones."""
        return None if self.prompts is None else Path(self.prompts)

    def check_judge(self, runs: Sequence[Path], *, asked_for: bool) -> None:
        """Check that there is exactly one judge, or verdicts of an earlier one.

        Raises:
            ModelError: if there is neither.
        """
        given = [
            name for name, value in (("--judge-model", self.judge_model), ("--judge-local", self.judge_local)) if value
        ]
        if given and not asked_for:
            raise ModelError(f"{given[0]} requires --metric judge.")
        if len(given) > 1:
            raise ModelError("Give one judge: --judge-model for a server's, or --judge-local for one on this machine.")
        if self.prompts and not given:
            raise ModelError(
                "--prompts sets the instructions of a judge: name one with --judge-model or --judge-local."
            )
        if self.judge_errors and not self.judge_model:
            raise ModelError(
                "--judge-errors requires a judge behind a server: give --metric judge --judge-model NAME. A model on "
                "this machine only compares the scores of two words."
            )
        from kgedit.runs.judging import VERDICTS_FILE

        unjudged = [run for run in runs if not (run / VERDICTS_FILE).is_file()]
        if asked_for and not given and unjudged:
            raise ModelError(
                f"{unjudged[0]} has no verdicts. Name a judge: --judge-model NAME for one of OpenAI's, with "
                "--judge-url URL for one of any compatible server, or --judge-local NAME for a model on this machine. "
                "The rule that agrees best with judgement by hand needs no judge: --metric single_answer."
            )

    def remote(self) -> RemoteJudge | None:
        """Judge behind a server; None if none is named."""
        from kgedit.llm.remote.client import Effort
        from kgedit.llm.remote.prices import SHIPPED
        from kgedit.llm.remote.server import OPENAI, ChatServer
        from kgedit.runs.judging import RemoteJudge

        if not self.judge_model:
            return None
        url = (self.judge_url or OPENAI).rstrip("/")
        return RemoteJudge(
            model=self.judge_model,
            server=ChatServer(url=url, key_variable=self.judge_key, timeout=self.timeout),
            effort=Effort(workers=self.workers, attempts=self.attempts),
            prices=SHIPPED if self.prices is None else Path(self.prices),
            budget=self.budget,
            tokenizer=self.judge_tokenizer,
            prompts=self.prompts_folder,
        )


@options
class BertScoreOptions:
    """The encoder of `--metric bertscore`."""

    bertscore_model: AnyFolder | None = flag(
        default=None,
        group="Model",
        rare=True,
        help="Encoder on this machine, such as RoBERTa or BERT, in Hugging Face layout.",
    )
    bertscore_layer: int | None = flag(
        default=None,
        ge=0,
        group="Model",
        rare=True,
        metavar="N",
        help="Hidden layer that is compared. Default: the last.",
    )
    bertscore_idf: bool = flag(
        default=False,
        group="Model",
        rare=True,
        help="Weight tokens by their rarity among the accepted answers.",
    )
    bertscore_baseline: AnyFile | None = flag(
        default=None,
        group="Model",
        rare=True,
        help="CSV (LAYER, P, R, F) with scores of unrelated texts, for rescaling. Default: none.",
    )

    def check_encoder(self, runs: Sequence[Path], *, asked_for: bool) -> None:
        """Check that there is an encoder, or scores of an earlier one.

        Raises:
            ModelError: if there is neither.
        """
        from kgedit.runs.scoring import BERTSCORES_FILE

        others = self.bertscore_layer is not None or self.bertscore_idf or self.bertscore_baseline is not None
        if (self.bertscore_model or others) and not asked_for:
            raise ModelError("The options --bertscore-... are for --metric bertscore, bertscore_precision and _recall.")
        if others and self.bertscore_model is None:
            raise ModelError("Layer, idf and baseline belong to an encoder: give --bertscore-model FOLDER too.")
        unmeasured = [run for run in runs if not (run / BERTSCORES_FILE).is_file()]
        if asked_for and self.bertscore_model is None and unmeasured:
            raise ModelError(
                f"No encoder has measured {unmeasured[0]}. Name one: --bertscore-model FOLDER, an encoder such as "
                "RoBERTa in Hugging Face layout on this machine."
            )


@options
class ScoreRuns(JudgeOptions, BertScoreOptions, Verb[ScoredRuns]):
    """Score stored answers by further metrics.

    The answers.jsonl of each run is scored again without running the edited model, and its scores.json then also
    contains these metrics, in addition to those of every run; so does kgedit report. A table per metric shows every
    axis and preset that it can score, with shares in percent as in kgedit report.

    The metric judge requests a verdict from a language model on each distinct free answer. Verdicts go to
    verdicts.jsonl in the run folder; replies are cached, so the same command resumes an interrupted one without paying
    twice. The agreement of the judge with the rules is printed and stored in scores.json.

    The metrics bertscore (F1), bertscore_precision and bertscore_recall compare each free answer with the accepted ones
    by the embeddings of an encoder, set by --bertscore-model. The scores go to bertscores.jsonl.
    """

    runs: ManyPaths = argument(metavar="RUN...", complete="runs", help="Folders written by run-edit.")
    metrics: Names = flag("--metric", metavar="NAME", complete="metrics", help="A metric; repeat.")
    progress: Steps | None = python_only(
        default=None, help="Called with every step. None shows a progress line in a notebook or a terminal."
    )

    @property
    def folders(self) -> list[Path]:
        """Folders of the runs."""
        return [Path(run) for run in self.runs]

    @property
    def judges(self) -> bool:
        """Whether the metric judge is among the metrics."""
        return "judge" in self.metrics

    @property
    def measures(self) -> bool:
        """Whether a metric compares embeddings."""
        from kgedit.metrics.text import BERTSCORES

        return any(name in BERTSCORES for name in self.metrics)

    def check(self) -> None:
        """Check the options against each other and against the run folders.

        Raises:
            UnknownNameError: if there is no such metric.
            TimestepError: if a folder contains no finished run.
            DamagedFileError: if a file of a run differs from what kgedit wrote.
            ModelError: if there is no judge or encoder for a metric, or one without its metric.
        """
        from kgedit.metrics import METRICS
        from kgedit.runs.run_files import check_run, require_finished

        for name in self.metrics:
            METRICS[name]
        for folder in self.folders:
            require_finished(folder)
            check_run(folder)
        self.check_judge(self.folders, asked_for=self.judges)
        self.check_encoder(self.folders, asked_for=self.measures)

    def estimate(self) -> CostEstimate:
        """Estimate the cost of a server's verdicts; the server is not called.

        Raises:
            ModelError: if no judge behind a server is named.
        """
        self.check()
        judge = self.remote()
        if judge is None:
            raise ModelError("--estimate is about a server's judge: give --metric judge --judge-model NAME.")
        return judge.estimate(self.folders)

    def run(self) -> ScoredRuns:
        """Judge and measure the answers, and write the scores; existing verdicts and measurements are kept.

        Raises:
            UnknownNameError: if there is no such metric.
            TimestepError: if a folder contains no finished run.
            DamagedFileError: if a file of a run differs from what kgedit wrote.
            ModelError: if there is no judge or encoder for a metric, or one cannot be queried.
        """
        from kgedit.runs.scoring import write_scores

        self.check()
        asked, classes, judged = self._judge() if self.judges else (None, None, None)
        measured = self._measure() if self.measures and self.bertscore_model is not None else None
        files = tuple(write_scores(folder, also=tuple(self.metrics)) for folder in self.folders)
        return ScoredRuns(files, asked, classes, judged, measured)

    def _judge(self) -> tuple[ChatReplies | None, ChatReplies | None, int | None]:
        progress = one_step(self.progress or step_line, "Judging", "answers")
        remote = self.remote()
        if remote is not None:
            asked = remote.judge(self.folders, progress=progress)
            spent = asked.dollars or 0.0
            return asked, remote.judge_errors(self.folders, spent=spent) if self.judge_errors else None, None
        if self.judge_local is None:
            return None, None, None
        from kgedit.runs.judging import LocalModelJudge

        local = LocalModelJudge(model=self.judge_local, prompts=self.prompts_folder)
        return None, None, local.judge(self.folders, progress=progress)

    def _measure(self) -> int:
        from kgedit.runs.scoring import EncoderSettings, measure_runs

        settings = EncoderSettings(
            model=Path(str(self.bertscore_model)),
            layer=self.bertscore_layer,
            idf=self.bertscore_idf,
            baseline=None if self.bertscore_baseline is None else Path(self.bertscore_baseline),
        )
        return measure_runs(
            self.folders, settings, progress=one_step(self.progress or step_line, "Measuring", "answers")
        )
