"""`configs`: lists, copies and checks hyperparameter files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgedit.errors import KgeditError, UnknownNameError
from kgedit.verbs.options import AnyFile, ManyFiles, Verb, argument, flag, options

if TYPE_CHECKING:
    from kgedit.runs.spec_files import CheckedFile


@dataclass(frozen=True, slots=True)
class ListedConfig:
    """A published config, or the defaults of a method.

    Attributes:
        name: METHOD/MODEL.
        models: Models that it applies to, in words.
    """

    name: str
    models: str


@options
class ListConfigs(Verb["list[ListedConfig]"]):
    """List published configs and defaults.

    Each line shows a METHOD/MODEL and the models that it applies to.
    """

    method: str | None = flag(default=None, metavar="NAME", complete="methods", help="Only configs of this method.")

    def run(self) -> list[ListedConfig]:
        """List the configs and defaults.

        Raises:
            UnknownNameError: if there is no such method.
        """
        from kgedit.editing import METHODS
        from kgedit.editing.hparams.settings import published_configs

        if self.method is not None and self.method not in METHODS:
            raise UnknownNameError("editing method", self.method, METHODS)
        found = []
        for method in [self.method] if self.method else list(METHODS):
            known = published_configs(method)
            for config in known:
                models = ", ".join(f"{field} {value}" for field, value in config.applies_to.items())
                found.append(ListedConfig(f"{method}/{config.model}", models))
            found.append(ListedConfig(f"{method}/default", "any other model" if known else "any model"))
        return found


@options
class CopyConfig(Verb[Path]):
    """Write a run spec with every setting of a method.

    Each line has the setting's value and meaning. FILE defaults to METHOD-MODEL.yaml; - means stdout.
    """

    name: str = argument(kw_only=False, metavar="METHOD/MODEL", complete="configs", help="Config to copy.")
    file: AnyFile | None = argument(default=None, kw_only=False, help="File to write.")
    overwrite: bool = flag(default=False, group="Output", help="Replace the file if it exists.")

    @property
    def target(self) -> Path:
        """File to write, or the one that the spec would be written to."""
        from kgedit.editing.hparams.settings import DEFAULT

        method, _, model = self.name.partition("/")
        given = None if self.file is None else Path(self.file)
        return Path(f"{method}-{model or DEFAULT}.yaml") if given in (None, Path("-")) else given

    def text(self) -> str:
        """The spec.

        Raises:
            UnknownNameError: if there is no such method or model.
        """
        from kgedit.editing import settings_type_of
        from kgedit.editing.hparams.settings import spec_text

        method, _, model = self.name.partition("/")
        return spec_text(settings_type_of(method), method, model, file=str(self.target))

    def run(self) -> Path:
        """Write the run spec.

        Raises:
            UnknownNameError: if there is no such method or model.
            KgeditError: if the file exists, unless `overwrite` is set.
        """
        from kgedit.files import replace_file

        text = self.text()
        if self.target.exists() and not self.overwrite:
            raise KgeditError(f"{self.target} already exists. Replace it: --overwrite")
        self.target.parent.mkdir(parents=True, exist_ok=True)
        replace_file(self.target, text)
        return self.target


@options
class ValidateConfigs(Verb["Mapping[Path, CheckedFile]"]):
    """Check run specs and hyperparameter files.

    Reports every problem of run specs, of published configs and of EasyEdit's hyperparameter files. A run spec may lack
    model and timesteps. Valid files get one line each on stdout; problems go to stderr and set the exit code to 1.
    """

    files: ManyFiles = argument(kw_only=False, help="Files to check.")

    def run(self) -> Mapping[Path, CheckedFile]:
        """Check them; the files are in the given order."""
        from kgedit.runs.spec_files import check

        return {Path(file): check(Path(file)) for file in self.files}


@options
class ConfigSchema(Verb["dict[str, Any]"]):
    """Print the JSON schema of run specs, for editors and other tools."""

    published: str | None = flag(
        default=None, metavar="METHOD", help="Print the schema of a method's published configs instead."
    )

    def run(self) -> dict[str, Any]:
        """Return the schema.

        Raises:
            UnknownNameError: if the method does not exist.
        """
        from kgedit.runs.spec import spec_schema
        from kgedit.runs.spec_files import published_schema

        return published_schema(self.published) if self.published else spec_schema()
