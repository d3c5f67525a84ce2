"""Options of verbs: declared once as fields, from which flags, Python signatures, JSON schemas and pages are derived.

A verb is a class whose fields are its options and whose `run` does the work:

    @options
    class WriteSample(Verb[Path]):
        '''Write the sample dumps.'''

        folder: NewFolder = argument(help="Folder to write.", kw_only=False)
        overwrite: bool = flag(default=False, help="Replace the folder.")

        def run(self) -> Path: ...

`kgedit.cli.verb_command` turns the fields into flags; `function_of` and `method_of` turn the class into a function.
"""

from __future__ import annotations

import datetime
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, Generic, ParamSpec, TypeVar, cast, dataclass_transform

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as pydantic_dataclass
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticOmit

from kgedit.errors import SpecError, StoreError, names_extra
from kgedit.wikidata.times import read_day

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

GROUPS = ("What", "Model", "Questions", "Machine", "Output")
"""Headings of options in --help, in this order."""


@dataclass(frozen=True, slots=True)
class CommandLine:
    """Appearance of a field on the command line.

    Attributes:
        names: Flags, such as --from; empty means the field's name.
        is_argument: Whether the value is positional.
        group: Heading in --help, one of GROUPS.
        rare: Whether only --help-all shows it.
        metavar: Placeholder of the value; None means the type's own.
        complete: Name of a function in kgedit.cli.completion; None means no completion.
        by_commas: Whether one text may contain several values, separated by commas; the flag may also be repeated.
        envvar: Environment variable with the value; None means none.
        is_shown: Whether it is a flag at all; objects such as callbacks are for Python only.
        default_help: Whether --help shows the default value.
    """

    names: tuple[str, ...] = ()
    is_argument: bool = False
    group: str = "What"
    rare: bool = False
    metavar: str | None = None
    complete: str | None = None
    by_commas: bool = False
    envvar: str | None = None
    is_shown: bool = True
    default_help: bool = True

    def __call__(self, schema: dict[str, Any]) -> None:
        """Leave the JSON schema of the field unchanged: pydantic calls what it finds in `json_schema_extra`."""


def flag(
    *names: str,
    help: str,
    default: Any = ...,
    kw_only: bool = True,
    group: str = "What",
    rare: bool = False,
    metavar: str | None = None,
    complete: str | None = None,
    by_commas: bool = False,
    envvar: str | None = None,
    default_help: bool = True,
    **limits: Any,
) -> Any:
    """Field that is an option such as --seed.

    Args:
        names: Flags; none means the field's name with dashes.
        help: Meaning of the value, for --help, docstrings and schemas.
        default: Default value; without one the option is required.
        kw_only: Whether Python callers must name it.
        group: Heading in --help, one of GROUPS.
        rare: Whether only --help-all shows it.
        metavar: Placeholder of the value; None means the type's own.
        complete: Name of a function in kgedit.cli.completion; None means no completion.
        by_commas: Whether one text may contain several values, separated by commas; the flag may also be repeated.
        envvar: Environment variable with the value; None means none.
        default_help: Whether --help shows the default value.
        limits: Limits of the value: ge, le, gt, min_length (pydantic).
    """
    shown = CommandLine(
        names=names,
        group=group,
        rare=rare,
        metavar=metavar,
        complete=complete,
        by_commas=by_commas,
        envvar=envvar,
        default_help=default_help,
    )
    return Field(default, description=help, json_schema_extra=shown, kw_only=kw_only, **limits)


def argument(
    *,
    help: str,
    default: Any = ...,
    kw_only: bool = True,
    metavar: str | None = None,
    complete: str | None = None,
) -> Any:
    """Field that is a positional argument of the command; see `flag`."""
    shown = CommandLine(is_argument=True, metavar=metavar, complete=complete)
    return Field(default, description=help, json_schema_extra=shown, kw_only=kw_only)


def python_only(*, help: str, default: Any = ..., kw_only: bool = True) -> Any:
    """Field for objects that a command line cannot give, such as callbacks."""
    return Field(default, description=help, json_schema_extra=CommandLine(is_shown=False), kw_only=kw_only)


_Class = TypeVar("_Class")
Result = TypeVar("Result")
P = ParamSpec("P")


@dataclass_transform(kw_only_default=True, field_specifiers=(flag, argument, python_only))
def options(cls: type[_Class]) -> type[_Class]:
    """Make a class with option fields; mixins of shared options are made the same way."""
    made = pydantic_dataclass(frozen=True, config=ConfigDict(arbitrary_types_allowed=True, extra="forbid"))(cls)
    return cast("type[_Class]", made)


class Verb(Generic[Result]):
    """Something that kgedit does, with its options as fields."""

    def run(self) -> Result:
        """Carry out the verb with these options."""
        raise NotImplementedError


class HomeVerb(Generic[Result]):
    """Something that kgedit does with a home."""

    def run(self, home: Path) -> Result:
        """Do it with the home in this folder."""
        raise NotImplementedError


def many(given: object) -> object:
    """Turn any iterable but a text into a tuple, for options that take several values."""
    return given if isinstance(given, str) or not isinstance(given, Iterable) else tuple(given)


def as_many(given: Any) -> tuple[Any, ...]:
    """One value or several as a tuple."""
    return tuple(given) if isinstance(given, Iterable) and not isinstance(given, str) else (given,)


@dataclass(frozen=True, slots=True)
class PathType:
    """Kind of a path on the command line.

    Attributes:
        exists: Whether it must exist.
        files: Whether it may be a file.
        folders: Whether it may be a folder.
        several: Whether the field takes several paths, although one path is a valid value too.
    """

    exists: bool = False
    files: bool = True
    folders: bool = True
    several: bool = False


@dataclass(frozen=True, slots=True)
class DayType:
    """Marks a day, which the command line reads in several spellings."""


@dataclass(frozen=True, slots=True)
class OneOf:
    """Names of which the value is one; the command line offers them, and the layer that uses the value checks it."""

    names: tuple[str, ...]


Marker = PathType | DayType | OneOf
"""Marks in an annotation that control how the command line reads a value."""


def _as_path(given: str | Path) -> Path:
    return Path(given)


def _as_day(given: object) -> object:
    """Parse a day; pydantic passes errors that are no ValueError on unchanged."""
    if isinstance(given, datetime.datetime):
        return given.date()
    if not isinstance(given, str):
        return given
    try:
        return read_day(given)
    except ValueError as error:
        raise StoreError(str(error)) from error


AnyPath = Annotated[str | Path, AfterValidator(_as_path), PathType()]
AnyFile = Annotated[str | Path, AfterValidator(_as_path), PathType(folders=False)]
AnyFolder = Annotated[str | Path, AfterValidator(_as_path), PathType(files=False)]
ExistingPath = Annotated[str | Path, AfterValidator(_as_path), PathType(exists=True)]
ExistingFile = Annotated[str | Path, AfterValidator(_as_path), PathType(exists=True, folders=False)]
ExistingFolder = Annotated[str | Path, AfterValidator(_as_path), PathType(exists=True, files=False)]
ManyFiles = Annotated[Sequence[ExistingFile], BeforeValidator(many)]
ManyFolders = Annotated[Sequence[AnyFolder], BeforeValidator(many)]
ManyPaths = Annotated[Sequence[AnyPath], BeforeValidator(many)]
OneOrManyPaths = Annotated[str | Path | Sequence[str | Path], BeforeValidator(as_many), PathType(several=True)]
Names = Annotated[Sequence[str], BeforeValidator(many)]
Day = Annotated[str | datetime.date, BeforeValidator(_as_day), DayType()]


def fields_of(verb: type) -> Mapping[str, FieldInfo]:
    """Fields of a class made by `options`, or of a pydantic model, in order."""
    found: Mapping[str, FieldInfo] | None = getattr(verb, "__pydantic_fields__", None)
    return found if found is not None else verb.model_fields  # type: ignore[attr-defined]


def command_line(info: FieldInfo) -> CommandLine:
    """Appearance of a field; the default one for fields that were not made here."""
    return info.json_schema_extra if isinstance(info.json_schema_extra, CommandLine) else CommandLine()


def _problems(error: ValidationError) -> SpecError:
    problems = [f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors()]
    return SpecError(problems, of="The options are wrong")


def made(verb: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> Result:
    """Make a verb from its options.

    Raises:
        SpecError: listing every option with an invalid value.
    """
    try:
        return verb(*args, **kwargs)
    except ValidationError as error:
        raise _problems(error) from error


def function_of(verb: Callable[P, Verb[Result]], *, name: str | None = None) -> Callable[P, Result]:
    """The verb as a function of its options.

    Args:
        verb: Class made by `options`.
        name: Name of the function; None means that of the class, in lower case.
    """

    @names_extra
    def function(*args: P.args, **kwargs: P.kwargs) -> Result:
        return made(verb, *args, **kwargs).run()

    return _like(function, verb, name=name)


def method_of(verb: Callable[P, HomeVerb[Result]], *, name: str | None = None) -> Callable[Concatenate[Any, P], Result]:
    """The verb as a method of a home, whose attribute `path` is the folder; see `function_of`."""

    @names_extra
    def method(home: Any, /, *args: P.args, **kwargs: P.kwargs) -> Result:
        return made(verb, *args, **kwargs).run(home.path)

    return _like(method, verb, name=name, bound=True)


_Function = TypeVar("_Function", bound=Callable[..., Any])


def _like(function: _Function, verb: Any, *, name: str | None, bound: bool = False) -> _Function:
    """Give a function the name, signature and docstring of its verb."""
    given = inspect.signature(verb)
    returned = inspect.signature(verb.run).return_annotation
    parameters = list(given.parameters.values())
    if bound:
        parameters.insert(0, inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY))
    function.__signature__ = given.replace(parameters=parameters, return_annotation=returned)  # type: ignore[attr-defined]
    function.__name__ = name or _snake(verb.__name__)
    function.__qualname__ = function.__name__
    function.__module__ = verb.__module__
    function.__doc__ = docstring(verb)
    return function


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


def docstring_text(verb: type) -> str:
    """Text of a verb's docstring."""
    return inspect.cleandoc(verb.__doc__ or "")


def docstring(verb: type) -> str:
    """Docstring of the function: the class's text, its options as Args, and `Returns` and `Raises` of `run`."""
    about = docstring_text(verb)
    lines = [f"    {name}: {info.description}" for name, info in fields_of(verb).items()]
    run = inspect.cleandoc(getattr(getattr(verb, "run", None), "__doc__", None) or "")
    _, _, rest = run.partition("\n\n")
    parts = [about, "\n".join(["Args:", *lines]) if lines else "", rest]
    return "\n\n".join(part for part in parts if part)


class _Schema(GenerateJsonSchema):
    """Leaves out fields that JSON cannot express."""

    def handle_invalid_for_json_schema(self, schema: Any, error_info: str) -> Any:  # noqa: ARG002 - pydantic's signature
        raise PydanticOmit


def json_schema(verb: type) -> dict[str, Any]:
    """JSON schema of the options, without those that only Python can give."""
    schema = TypeAdapter(verb).json_schema(schema_generator=_Schema)
    for name, info in fields_of(verb).items():
        if not command_line(info).is_shown:
            schema["properties"].pop(name, None)
    return schema


def taken(verb: Any, names: Iterable[str]) -> dict[str, Any]:
    """Values of some options by name, for the settings of a lower layer that have the same names."""
    return {name: getattr(verb, name) for name in names}
