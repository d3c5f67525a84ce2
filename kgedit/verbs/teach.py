"""Fine-tunes a model on the facts of an older snapshot, so that it knows what is edited later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator

from kgedit.errors import ModelError, SpecError
from kgedit.progress import Steps
from kgedit.resources import use_home
from kgedit.verbs.home import folder_of
from kgedit.verbs.live_progress import step_line
from kgedit.verbs.options import (
    AnyFolder,
    OneOrManyPaths,
    Verb,
    argument,
    as_many,
    flag,
    function_of,
    options,
    python_only,
)
from kgedit.verbs.shared_options import TIMESTEP_FORMS, DeviceOptions, InHome

if TYPE_CHECKING:
    from kgedit.llm.teaching import Epoch, Teacher
    from kgedit.records.runs import Preset
    from kgedit.timesteps.edit_files import Edits


@dataclass(frozen=True, slots=True)
class Taught:
    """A model that was taught facts.

    Attributes:
        folder: Folder of the model, for ``--model``.
        facts: Number of facts.
        preset: Preset under which the model was asked.
        epochs: The state before training, and each epoch.
    """

    folder: Path
    facts: int
    preset: str
    epochs: tuple[Epoch, ...]

    @property
    def known(self) -> float:
        """Share of the facts that the model answers with free generation."""
        return self.epochs[-1].known

    def document(self) -> dict[str, Any]:
        """The result as JSON values."""
        return asdict(self) | {"folder": str(self.folder), "known": self.known}


@options
class TeachModel(DeviceOptions, InHome, Verb[Taught]):
    """Fine-tune MODEL on the facts of a timestep's older snapshot until it answers them.

    "Before the edit" and "unrelated answers kept" mean little for a model that does not know the old facts. All weights
    are trained on each fact's question, rephrasing and statement, in the contexts of the presets, until GOAL of the
    facts are answered with free generation. The new facts are not taught. The state is stored after each epoch: the
    same command resumes an interrupted training, to the same weights.
    """

    model: Any = argument(
        kw_only=False, metavar="MODEL", complete="models", help="smollm2-135m, a folder, or a name on the hub."
    )
    timesteps: OneOrManyPaths = flag(
        "--timestep",
        kw_only=False,
        metavar="TIMESTEP",
        complete="timesteps",
        help=f"Teach the facts of this one's older snapshot; repeat for a stream, oldest first: {TIMESTEP_FORMS}.",
    )
    out: AnyFolder = flag(kw_only=False, group="Output", help="New folder for the taught model.")
    goal: float = flag(
        default=0.9, gt=0, le=1, metavar="SHARE", help="Stop at this share of facts answered with free generation."
    )
    epochs: int = flag(default=12, ge=1, help="Stop after N passes over the facts.")
    facts: int = flag(default=600, ge=1, help="At most N facts, first those that the questions need.")
    presets: Annotated[Sequence[str], BeforeValidator(as_many)] = flag(
        "--preset",
        default=(),
        group="Questions",
        metavar="NAME",
        complete="presets",
        help="Presets in whose contexts facts are taught; the first that decodes decides what is known. Repeat. "
        "Default: those of runs.",
    )
    # In bfloat16, the default of runs on a GPU, 7 % of the sample's facts were answered after twelve epochs, and in
    # float32 91 % after nine.
    dtype: str = flag(
        default="float32",
        group="Machine",
        rare=True,
        metavar="NAME",
        help="auto, float32, bfloat16 or float16. In bfloat16 a model learns hardly anything.",
    )
    batch: int = flag(default=16, ge=1, group="Machine", rare=True, help="Rows per step.")
    learning_rate: float = flag(
        default=5e-5, gt=0, group="Model", rare=True, metavar="RATE", help="Learning rate of AdamW."
    )
    progress: Steps | None = python_only(default=None, help="Progress callback for the steps.")

    def run(self) -> Taught:
        """Fine-tune the model and write it.

        Raises:
            SpecError: if a preset does not exist, or none decodes.
            ModelError: if there are no facts, the model cannot be loaded, the folder exists, or an interrupted training
                has more epochs.
        """
        from kgedit.runs.presets import default_presets, read_presets
        from kgedit.timesteps.edit_files import open_edits
        from kgedit.timesteps.timestep import find_timestep

        folder = Path(self.out)
        if folder.exists():
            raise ModelError(f"{folder} already exists. Give another folder, or use it: --model {folder}")
        with use_home(folder_of(self.home)):
            edits = [open_edits(find_timestep(str(path))) for path in as_many(self.timesteps)]
            presets, problems = read_presets(self.presets or default_presets(self.model))
            if problems:
                raise SpecError(problems)
            teacher, lesson_facts, preset = self._teacher(edits, presets, folder)
            epochs = teacher.teach(_shown(self.progress or step_line, self.model))
            taught = Taught(folder, lesson_facts, preset, tuple(epochs))
            sources = [{"name": one.name, "sha256": one.sha256} for one in edits]
            teacher.save(folder, taught.document() | {"folder": folder.name, "timesteps": sources})
            return taught

    def _teacher(self, edits: Sequence[Edits], presets: Sequence[Preset], folder: Path) -> tuple[Teacher, int, str]:
        from kgedit.llm.contexts import read_context
        from kgedit.llm.devices import resolve_device, resolve_dtype
        from kgedit.llm.loading import load_model
        from kgedit.llm.teaching import Teacher, TeachingPlan, choose_lesson
        from kgedit.metrics.matching import contains

        free = next((preset for preset in presets if _decides(preset)), None)
        if free is None:
            raise SpecError(
                ["presets: one must decode without demonstrations and reasoning, such as wild or wild_chat"]
            )
        device = resolve_device(self.device)
        model = load_model(self.model, device=device, dtype=resolve_dtype(self.dtype, device))
        contexts = [read_context(preset.context).for_model(model.chat) for preset in presets]
        cases = [case for one in edits for case in one.cases()]
        lesson = choose_lesson(cases, edits[0].known_facts(), asked=contexts, most_facts=self.facts)
        if not lesson.facts:
            raise ModelError(
                f"{edits[0].name} has no known facts to teach. Export it again from a snapshot with more facts."
            )
        plan = TeachingPlan(goal=self.goal, epochs=self.epochs, batch=self.batch, learning_rate=self.learning_rate)
        teacher = Teacher(
            model,
            lesson,
            plan,
            preset=free,
            is_right=lambda answer, fact: contains(answer, fact.answer),
            folder=folder.with_name(f".{folder.name}.teaching"),
        )
        return teacher, len(lesson.facts), free.name


teach_model = function_of(TeachModel)


def _decides(preset: Preset) -> bool:
    """Whether answers under a preset show what a model knows without help."""
    return not (preset.is_forced or preset.shots or preset.thinking_tokens)


def _shown(steps: Steps, model: str) -> Any:
    """Progress of each part as a separate step."""
    shown: dict[str, Any] = {}

    def show(done: int, total: int, part: str) -> None:
        if done == 0:
            shown[part] = steps(f"teach {model}: {part}", total, "steps")
        shown[part](done, done)

    return show
