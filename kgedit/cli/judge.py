"""Options of `kgedit score --metric judge`: the judge and its budget."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kgedit.cli.asking import estimate_document, tell_asked, tell_estimate
from kgedit.cli.formats import print_json, wants_json
from kgedit.cli.progress import bar, say
from kgedit.errors import ModelError
from kgedit.verbs.options import AnyFolder, flag, options
from kgedit.verbs.shared_options import CostOptions

if TYPE_CHECKING:
    from kgedit.records.scores import Agreement
    from kgedit.runs.judging import RemoteJudge


@options
class JudgeOptions(CostOptions):
    """The judge of `--metric judge`, and its budget."""

    judge_model: str | None = flag(
        default=None,
        group="Model",
        metavar="NAME",
        help="Model of an OpenAI-compatible server, as it is named there.",
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
        default=None, group="Model", metavar="NAME", help="Instead, a local model, as for --model of run-edit."
    )
    judge_tokenizer: str | None = flag(
        default=None,
        group="Model",
        rare=True,
        metavar="NAME",
        help="For --estimate: local model with the judge's tokenizer; else four characters are a token.",
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
    estimate: bool = flag(
        default=False, group="Model", help="Print the estimated cost of the judge, without calling it."
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
        if self.estimate and not self.judge_model:
            raise ModelError("--estimate is about a server's judge: give --metric judge --judge-model NAME.")
        if self.judge_errors and not self.judge_model:
            raise ModelError(
                "--judge-errors asks a server's judge: give --metric judge --judge-model NAME. A model on this machine "
                "compares two words and names no class."
            )
        from kgedit.runs.verdicts import VERDICTS_FILE

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


def judge(runs: Sequence[Path], options: JudgeOptions) -> None:
    """Judge the runs' answers, or keep existing verdicts."""
    remote = options.remote()
    with bar("Judging", "answers") as progress:
        if remote:
            asked = remote.judge(runs, progress=progress)
            tell_asked(asked, done="Judged", what="answers", failed="No verdict")
            if options.judge_errors:
                classes = remote.judge_errors(runs, spent=asked.dollars or 0.0)
                tell_asked(classes, done="Classes of errors", what="answers", failed="No class")
        elif options.judge_local:
            from kgedit.runs.judging import LocalModelJudge

            judged = LocalModelJudge(model=options.judge_local, prompts=options.prompts_folder).judge(
                runs, progress=progress
            )
            say(f"Judged by {options.judge_local}: {judged:,} distinct answers")
        else:
            say("No judge is named: the verdicts that are in the run folders are kept.")


def tell_judge_estimate(runs: Sequence[Path], options: JudgeOptions) -> None:
    """Print the estimated cost of a judge."""
    remote = options.remote()
    assert remote is not None
    estimate = remote.estimate(runs)
    if wants_json():
        print_json(estimate_document(estimate))
        return
    tell_estimate(estimate)
    if options.judge_errors:
        click.echo("error classes: at most one more call for each answer, for those that are called wrong")


def agreement_line(agreement: Agreement) -> str:
    """Agreement of one rule with the judge, in words."""
    details = []
    if agreement.low is not None and agreement.high is not None:
        details.append(f"95 % interval {agreement.low:.1%} to {agreement.high:.1%}")
    if agreement.kappa is not None:
        details.append(f"kappa {agreement.kappa:.2f}")
    agreed = f"the judge and {agreement.rule} agree on {agreement.share:.1%} of {agreement.n:,} answers"
    return f"{agreement.preset}: {agreed}" + (f" ({', '.join(details)})" if details else "")
