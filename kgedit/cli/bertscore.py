"""Options of `kgedit score --metric bertscore`: the encoder and its settings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kgedit.cli.progress import bar, say
from kgedit.errors import ModelError
from kgedit.verbs.options import AnyFile, AnyFolder, flag, options

if TYPE_CHECKING:
    from kgedit.records.scores import Encoding


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
        from kgedit.runs.bert_scoring import FILE

        others = self.bertscore_layer is not None or self.bertscore_idf or self.bertscore_baseline is not None
        if (self.bertscore_model or others) and not asked_for:
            raise ModelError("The options --bertscore-... are for --metric bertscore, bertscore_precision and _recall.")
        if others and self.bertscore_model is None:
            raise ModelError("Layer, idf and baseline belong to an encoder: give --bertscore-model FOLDER too.")
        unmeasured = [run for run in runs if not (run / FILE).is_file()]
        if asked_for and self.bertscore_model is None and unmeasured:
            raise ModelError(
                f"No encoder has measured {unmeasured[0]}. Name one: --bertscore-model FOLDER, an encoder such as "
                "RoBERTa in Hugging Face layout on this machine."
            )


def measure(runs: Sequence[Path], options: BertScoreOptions) -> None:
    """Measure the runs' answers, or keep existing scores."""
    if options.bertscore_model is None:
        say("No encoder is named: the BERTScores that are in the run folders are kept.")
        return
    from kgedit.runs.bert_scoring import EncoderSettings, measure_runs

    settings = EncoderSettings(
        model=Path(options.bertscore_model),
        layer=options.bertscore_layer,
        idf=options.bertscore_idf,
        baseline=None if options.bertscore_baseline is None else Path(options.bertscore_baseline),
    )
    with bar("Measuring", "answers") as progress:
        measured = measure_runs(runs, settings, progress=progress)
    say(f"Measured with {settings.model}: {measured:,} distinct answers")


def encoding_line(encoding: Encoding) -> str:
    """Encoding of BERTScores in words; scores of different encodings are not comparable."""
    how = ["idf" if encoding.idf else "no idf", "rescaled" if encoding.baseline_sha256 else "not rescaled"]
    later = f"; {encoding.later:,} answers came later and are not measured" if encoding.later else ""
    return (
        f"BERTScore: {encoding.encoder} ({encoding.fingerprint[:8]}), layer {encoding.layer}, {', '.join(how)}{later}"
    )
