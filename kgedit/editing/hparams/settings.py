"""Hyperparameters, in two types: as given by a user, and resolved for a model; and run spec templates of them.

A method's settings are a pydantic model without open values. The settings given by a user are checked by a second
model, derived from the first, in which every setting is optional; `GivenSettings.resolve` fills in the rest.

In the name of a template, METHOD/MODEL is a published config in the folder `configs`; METHOD/default has the method's
defaults.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, TypeVar, Union, get_args, get_origin

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, create_model
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, PydanticUndefined

from kgedit.errors import SpecError, UnknownNameError, near_names
from kgedit.records.runs import Setting
from kgedit.yaml_files import load_yaml

if TYPE_CHECKING:
    from kgedit.llm.language_model import LanguageModel


_WORDS: dict[str, bool | None] = {"true": True, "false": False, "yes": True, "no": False, "none": None, "null": None}


class Settings(BaseModel):
    """Complete hyperparameters of one method; subclasses declare them with `setting`."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @classmethod
    def derive(cls, model: LanguageModel, known: Mapping[str, Any]) -> dict[str, Setting]:  # noqa: ARG003 - one signature for all
        """Values derived from a model's depth, width or device, for settings neither given nor published.

        Args:
            model: Model to derive them from.
            known: Settings that already have a value.
        """
        return {}


class NoSettings(Settings):
    """A method without settings."""


Kind = TypeVar("Kind", bound=Settings)


def setting(
    meaning: str,
    *,
    default: Any = PydanticUndefined,
    derived: str = "",
    instead_of: str = "",
    ge: float | None = None,
    gt: float | None = None,
    le: float | None = None,
) -> Any:
    """Declare a field of a settings class.

    Args:
        meaning: Meaning in one line.
        default: Default value; omitted for settings that `derive` returns.
        derived: Short description of how `derive` finds the value: "by width".
        instead_of: Setting that this one replaces: if this one is given, the published value of that one is ignored.
        ge: Minimum value.
        gt: Exclusive lower bound.
        le: Maximum value.
    """
    text = f"{meaning}; null: as published for the model, else {derived}" if derived else meaning
    return Field(default, description=text, ge=ge, gt=gt, le=le, json_schema_extra={"instead_of": instead_of})


def readable_by(parse: Callable[[str], object]) -> AfterValidator:
    """Require that `parse` accepts a text; its SpecError becomes a problem of the setting."""

    def check(text: str) -> str:
        try:
            parse(text)
        except SpecError as error:
            raise ValueError("; ".join(error.problems)) from error
        return text

    return AfterValidator(check)


@dataclass(frozen=True, slots=True)
class Resolved(Generic[Kind]):
    """Settings resolved for one model.

    Attributes:
        settings: Complete settings.
        published_for: Name of the published config that matches the model; None without one.
    """

    settings: Kind
    published_for: str | None


@dataclass(frozen=True, slots=True)
class GivenSettings(Generic[Kind]):
    """Checked settings given by a user, created by `read_settings`.

    Attributes:
        kind: Settings class of the method.
        method: Name of the method, for published values.
        values: The given values only.
    """

    kind: type[Kind]
    method: str
    values: Mapping[str, Setting]

    def resolve(self, model: LanguageModel) -> Resolved[Kind]:
        """Fill in published values for the model, then defaults, then values derived from the model.

        Raises:
            SpecError: if a setting names a block that the model lacks.
        """
        published = published_for(self.method, model.module.config)
        known = {**defaults(self.kind), **self._of(published), **self.values}
        settings = self.kind(**{**self.kind.derive(model, known), **known})
        return Resolved(settings, published.model if published else None)

    def _of(self, published: PublishedConfig | None) -> dict[str, Setting]:
        """Published values, except those that the user replaced by another setting, such as a layer by a depth."""
        fields = self.kind.model_fields
        own = {name: fields[name] for name, value in self.values.items() if value != fields[name].default}
        chosen = {_extra(field)["instead_of"] for field in own.values()}
        return {name: value for name, value in published.settings.items() if name not in chosen} if published else {}


def defaults(kind: type[Settings]) -> dict[str, Setting]:
    """Defaults of all settings with a default."""
    return {name: field.default for name, field in kind.model_fields.items() if not field.is_required()}


def meanings(kind: type[Settings]) -> dict[str, str]:
    """Meanings by setting."""
    return {name: field.description or "" for name, field in kind.model_fields.items()}


def read_settings(
    kind: type[Kind], raw: Mapping[str, object], *, method: str
) -> tuple[GivenSettings[Kind] | None, list[str]]:
    """Check settings given by a user: numbers may be strings, and null leaves a setting open, or turns it off.

    Returns:
        The settings and no problems, or None and all problems.
    """
    try:
        given = given_model(kind).model_validate(dict(raw))
    except ValidationError as error:
        return None, [_problem(item, method, list(kind.model_fields)) for item in error.errors()]
    values = {name: getattr(given, name) for name in raw}
    own = {name: value for name, value in values.items() if value is not None or _null_is_a_value(kind, name)}
    return GivenSettings(kind, method, own), []


def _null_is_a_value(kind: type[Settings], name: str) -> bool:
    """Whether null turns off what the setting does by default, as in `clamp: null`, instead of leaving it open."""
    field = kind.model_fields[name]
    return type(None) in get_args(field.annotation) and field.default not in (None, PydanticUndefined)


@cache
def given_model(kind: type[Settings]) -> type[BaseModel]:
    """Pydantic model of the same settings in which each is optional and may be null."""
    fields: dict[str, Any] = {name: (_optional(field), _given(field)) for name, field in kind.model_fields.items()}
    config = ConfigDict(extra="forbid", allow_inf_nan=False, frozen=True)
    return create_model(f"Given{kind.__name__}", __config__=config, **fields)


def _optional(field: FieldInfo) -> Any:
    inner: Any = field.annotation
    for limit in field.metadata:
        inner = Annotated[inner, limit]
    return Annotated[Union[inner, None], as_given(field.annotation)]  # noqa: UP007 - inner is a value


def _given(field: FieldInfo) -> Any:
    return Field(None, description=field.description)


def as_given(annotation: Any) -> BeforeValidator:
    """Convert values before pydantic checks them, because YAML reads 5e-4 as a string and all flags are strings."""
    options = set(get_args(annotation) or (annotation,)) if get_origin(annotation) is not Literal else {str}

    def read(given: object) -> object:
        word = _WORDS.get(given.strip().lower(), given) if isinstance(given, str) and str not in options else given
        if word is None:
            return None
        for option in (int, float, bool):
            if option in options:
                return _READERS[option](word, given)
        return word

    return BeforeValidator(read)


def _whole_number(word: object, given: object) -> object:
    number = _as_number(word)
    if number is None or not number.is_integer():
        raise ValueError(f"expected a whole number, not {given!r}")
    return int(number)


def _number(word: object, given: object) -> object:
    number = _as_number(word)
    if number is None:
        raise ValueError(f"expected a number, not {given!r}")
    return number


def _truth(word: object, given: object) -> object:
    if not isinstance(word, bool):
        raise ValueError(f"expected true or false, not {given!r}")
    return word


_READERS: dict[type, Callable[[object, object], object]] = {int: _whole_number, float: _number, bool: _truth}


def _as_number(word: object) -> float | None:
    if isinstance(word, bool) or not isinstance(word, (int, float, str)):
        return None
    try:
        number = float(word)
    except ValueError:
        return None
    return None if math.isnan(number) else number


def _problem(item: ErrorDetails, method: str, known: list[str]) -> str:
    name = ".".join(str(part) for part in item["loc"] if isinstance(part, str) and "[" not in part)
    if item["type"] == "extra_forbidden":
        return unknown(f"setting of {method}", name, known)
    return f"settings.{name}: {explain(item)}"


def explain(item: ErrorDetails) -> str:
    """Message for one of pydantic's errors."""
    limits, given = item.get("ctx", {}), item["input"]
    if item["type"] == "value_error":
        return str(limits["error"])
    if item["type"] == "literal_error":
        return unknown("such value", given, re.findall(r"'([^']*)'", limits["expected"]))
    messages: dict[str, Callable[[], str]] = {
        "greater_than": lambda: f"must be greater than {limits['gt']:g}",
        "greater_than_equal": lambda: f"must be at least {limits['ge']:g}",
        "less_than_equal": lambda: f"must be at most {limits['le']:g}",
        "finite_number": lambda: "must be finite",
        "string_type": lambda: "expected a text",
    }
    plain = messages.get(item["type"], lambda: item["msg"][:1].lower() + item["msg"][1:])
    return f"{plain()}, not {given!r}"


def _extra(field: FieldInfo) -> dict[str, Any]:
    extra = field.json_schema_extra
    return extra if isinstance(extra, dict) else {"instead_of": ""}


_OTHER_NAMES = {
    "lr": ("learning_rate",),
    "num_steps": ("steps", "epochs"),
    "num_epochs": ("epochs", "steps"),
    "epochs": ("steps",),
    "batch_size": ("batch",),
    "num_grad_steps": ("steps",),
}
"""Names that settings have in other tools, with ours."""


def unknown(kind: str, name: object, known: list[str]) -> str:
    """Message for an unknown name, with the nearest known one."""
    near = near_names(str(name), known, limit=1) or [own for own in _OTHER_NAMES.get(str(name), ()) if own in known]
    hint = f" did you mean '{near[0]}'?" if near else ""
    return f"there is no {kind} '{name}';{hint} known: {', '.join(sorted(known)) or 'none'}"


DEFAULT = "default"


def spec_text(kind: type[Settings], method: str, model: str, *, file: str) -> str:
    """Text of a run spec with every setting of a method and its meaning, one per line.

    Args:
        kind: Settings class of the method.
        method: Name of the method.
        model: Name of a published config, or DEFAULT or "" for the defaults.
        file: Future file name, for the command in the first lines.

    Raises:
        UnknownNameError: if there is no such config.
    """
    published = _published(method, model or DEFAULT)
    values = {**defaults(kind), **(published.settings if published else {})}
    lines = [
        f"# {published.about if published else f'{method} with its defaults'}",
        f"# kgedit run-edit {file} --model FOLDER --timestep FOLDER",
        f"method: {method}",
        "settings:" if meanings(kind) else "settings: {}",
        *(f"  {name}: {_scalar(values.get(name))}  # {meaning}" for name, meaning in meanings(kind).items()),
    ]
    return "\n".join(lines) + "\n"


def _published(method: str, model: str) -> PublishedConfig | None:
    """Find a published config; None means the defaults."""
    if model == DEFAULT:
        return None
    configs = {config.model: config for config in published_configs(method)}
    if model not in configs:
        known = [DEFAULT, *configs]
        raise UnknownNameError("config", f"{method}/{model}", [f"{method}/{one}" for one in known])
    return configs[model]


def _scalar(value: Setting) -> str:
    return yaml.safe_dump(value, allow_unicode=True, width=1000).removesuffix("...\n").strip()


# A model is recognised by its configuration (type, width, depth, vocabulary), never by its name.


CONFIGS = Path(__file__).parent / "configs"


@dataclass(frozen=True, slots=True)
class PublishedConfig:
    """One config file.

    Attributes:
        model: File name without extension.
        about: First line of the file: method, model and source.
        applies_to: Fields of the model configuration with their required values.
        settings: Hyperparameters.
    """

    model: str
    about: str
    applies_to: Mapping[str, Setting]
    settings: Mapping[str, Setting]


def published_configs(method: str) -> list[PublishedConfig]:
    """All configs of a method, ordered by model name; empty for the method ""."""
    return [read_config(path) for path in sorted((CONFIGS / method).glob("*.yaml"))]


def read_config(path: Path) -> PublishedConfig:
    """Read a config file.

    Raises:
        SpecError: if it is not a mapping with `settings`.
    """
    try:
        text = path.read_text(encoding="utf-8")
        raw = load_yaml(text)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise SpecError([why_unreadable(path, error)]) from error
    if not isinstance(raw, dict) or not isinstance(raw.get("settings"), dict):
        raise SpecError([f"{path} must be a mapping with 'settings' (and 'applies_to' for the models it is for)"])
    about = text.partition("\n")[0].removeprefix("#").strip()
    return PublishedConfig(path.stem, about, raw.get("applies_to") or {}, raw["settings"])


def published_for(method: str, config: Any) -> PublishedConfig | None:
    """Published config for a model with this transformers configuration, or None."""
    own = config.get_text_config()
    for published in published_configs(method):
        if all(getattr(own, name, None) == value for name, value in published.applies_to.items()):
            return published
    return None


def why_unreadable(path: Path, error: OSError | UnicodeDecodeError | yaml.YAMLError) -> str:
    """Reason without error numbers, and the line where the YAML is invalid."""
    if isinstance(error, FileNotFoundError):
        return f"there is no file {path}"
    if isinstance(error, OSError):
        return f"{path} cannot be read: {error.strerror}"
    if isinstance(error, UnicodeDecodeError):
        return f"{path} is not UTF-8 text"
    mark = getattr(error, "problem_mark", None)
    where = f"{path}, line {mark.line + 1}" if mark else str(path)
    return f"{where}: the YAML is broken: {getattr(error, 'problem', None) or str(error).partition(chr(10))[0]}"
