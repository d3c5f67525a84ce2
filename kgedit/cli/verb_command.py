"""Turns verbs (kgedit.verbs.options) into commands: their fields become flags, grouped in --help."""

from __future__ import annotations

import datetime
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import annotated_types
import click
from pydantic import ValidationError

from kgedit.cli import completion
from kgedit.cli.command_groups import ResumableCommand
from kgedit.cli.command_groups import examples as example_lines
from kgedit.errors import SpecError
from kgedit.verbs.options import (
    GROUPS,
    CommandLine,
    DayType,
    Marker,
    OneOf,
    command_line,
    docstring_text,
    fields_of,
    made,
)
from kgedit.wikidata.times import read_day

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo


class _Day(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4 only
    """A day, as its midnight; year first, in any of the spellings of `read_day`."""

    name = "day"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime.datetime:
        if isinstance(value, datetime.datetime):
            return value
        try:
            return datetime.datetime.combine(read_day(value), datetime.time())
        except ValueError as error:
            self.fail(str(error), param, ctx)


DATE: dict[str, Any] = {"type": _Day(), "metavar": "YYYY-MM-DD"}
"""Any day."""


def _read_days(
    _context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]
) -> tuple[datetime.date, ...]:
    try:
        return tuple(read_day(day.strip()) for days in given if days for day in days.split(","))
    except ValueError as error:
        raise click.BadParameter(f"{error} Several days are separated by commas: 2010-12-31,2015-12-31") from error


DATES: dict[str, Any] = {"metavar": "YYYY-MM-DD,...", "multiple": True, "callback": _read_days}
"""Several days: separated by commas, or the option repeated."""


Made = TypeVar("Made")


class FlagOption(click.Option):
    """An option with its heading in --help.

    Attributes:
        group: Heading, one of GROUPS.
        rare: Whether only --help-all shows it.
    """

    def __init__(self, *declarations: Any, group: str = "Output", rare: bool = False, **attributes: Any) -> None:
        super().__init__(*declarations, **attributes)
        self.group = group
        self.rare = rare


class DescribedArgument(click.Argument):
    """A positional argument with a line in --help.

    Attributes:
        meaning: Meaning of the value.
    """

    def __init__(self, *declarations: Any, meaning: str, **attributes: Any) -> None:
        super().__init__(*declarations, **attributes)
        self.meaning = meaning


class VerbCommand(ResumableCommand):
    """A command whose options are grouped, the rare ones behind --help-all.

    Attributes:
        verbs: Verbs that it does.
        do: Function that does them and presents the results.
    """

    verbs: tuple[type, ...]
    do: Callable[..., Any]

    def __init__(self, *args: Any, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        if any(getattr(param, "rare", False) for param in self.params):
            self.params.append(
                FlagOption(
                    ["--help-all"],
                    is_flag=True,
                    is_eager=True,
                    expose_value=False,
                    callback=_show_all,
                    help="Show this message with the rare options too, and exit.",
                )
            )

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options under their headings."""
        shows_all = ctx.meta.get("kgedit.cli.help_all", False)
        groups: dict[str, list[tuple[str, str]]] = {}
        arguments = [param for param in self.get_params(ctx) if isinstance(param, DescribedArgument)]
        if arguments:
            with formatter.section("Arguments"):
                formatter.write_dl([(param.make_metavar(ctx).strip("[]"), param.meaning) for param in arguments])
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if record is not None and (shows_all or not getattr(param, "rare", False)):
                groups.setdefault(getattr(param, "group", "Output"), []).append(record)
        headings = [name for name in (*GROUPS, *groups) if name in groups]
        for name in dict.fromkeys(headings):
            with formatter.section(name if len(groups) > 1 else "Options"):
                formatter.write_dl(groups[name])


def _show_all(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing:
        context.meta["kgedit.cli.help_all"] = True
        click.echo(context.get_help(), color=context.color)
        context.exit()


@dataclass(frozen=True)
class Given:
    """Options of a command that does one of several verbs.

    Attributes:
        values: Values by option.
    """

    values: Mapping[str, Any]

    def with_values(self, **values: Any) -> Given:
        """Return a copy with other values of some options."""
        return Given({**self.values, **values})

    def make(self, verb: Callable[..., Made], **more: Any) -> Made:
        """Make one of the verbs from its options.

        Raises:
            BadParameter: naming the first option with an invalid value.
        """
        names = fields_of(verb)  # type: ignore[arg-type]
        try:
            return made(verb, **({name: self.values[name] for name in names if name in self.values} | more))
        except SpecError as error:
            raise _bad_parameter(error, verb) from error


def verb_command(
    *verbs: type,
    name: str,
    examples: Sequence[str],
    about: str = "",
    before_examples: str = "",
    optional: Iterable[str] = (),
    words: str | None = None,
    several: bool = False,
    more: Sequence[Callable[..., Any]] = (),
    group: click.Group | None = None,
) -> Callable[[Callable[..., Any]], VerbCommand]:
    """Make a command from verbs; the decorated function does them and presents the results.

    The function receives the verb that was made from the options, or `Given` if there are several verbs, and the values
    of the further options by name. The command's help is the docstring of the first verb, or `about`.

    Args:
        verbs: Classes made by `kgedit.verbs.options.options`.
        name: Name of the command.
        examples: Commands to show at the end of the help.
        about: Help, if it is not the first verb's docstring.
        before_examples: Text above the examples.
        optional: Fields that the command line may leave out although the verb requires them.
        words: Field that is a text of several words on the command line, without quotes; None means none.
        several: Whether the function receives `Given` for a single verb too, to change values before the verb is made.
        more: Decorators that add further options, such as `result_format`.
        group: Group that the command belongs to; None means none.
    """
    fields = {field: info for verb in verbs for field, info in _own_first(verb)}
    params = [_parameter(field, info, may_lack=field in set(optional)) for field, info in fields.items()]
    own = {param.name for param in params if param is not None}
    for param in params:
        if param is not None and param.name == words:
            param.nargs, param.callback = -1, lambda _context, _param, given: " ".join(given)

    def decorate(function: Callable[..., Any]) -> VerbCommand:
        def call(**values: Any) -> Any:
            options = {key: _given(fields[key], value) for key, value in values.items() if key in own}
            given = Given(options)
            subject = given if several or len(verbs) > 1 else given.make(verbs[0])
            return command.do(subject, **{key: value for key, value in values.items() if key not in own})

        for decorator in reversed(more):
            call = decorator(call)
        command = click.command(
            name,
            cls=VerbCommand,
            help=about or docstring_text(verbs[0]),
            epilog=example_lines(*examples, before=before_examples),
            params=[param for param in params if param is not None],
        )(call)
        command.verbs, command.do = verbs, function
        if group is not None:
            group.add_command(command)
        return command

    return decorate


def with_parameters(function: Callable[..., Any], *parameters: click.Parameter) -> Callable[..., Any]:
    """Add parameters to the function of a command, as click's decorators do."""
    before = getattr(function, "__click_params__", [])
    function.__click_params__ = [*before, *reversed(parameters)]  # type: ignore[attr-defined]  # in reverse order
    return function


def _bad_parameter(error: SpecError, verb: Any) -> Exception:
    """The error as one about a flag, if it is about the value of one."""
    cause = error.__cause__
    if not isinstance(cause, ValidationError):
        return error
    first = cause.errors()[0]
    field = str(first["loc"][0]) if first["loc"] else ""
    shown = command_line(fields_of(verb)[field]) if field in fields_of(verb) else CommandLine()
    hint = (shown.names or (f"--{field.replace('_', '-')}",))[-1]
    return click.BadParameter(first["msg"].removeprefix("Value error, "), param_hint=hint)


def _own_first(verb: type) -> list[tuple[str, FieldInfo]]:
    """Fields of a verb, its own before those of the mixins of shared options."""
    # Inheritance puts the fields of mixins first, but in --help the verb's own ones matter most.
    own = vars(verb).get("__annotations__", {})
    return sorted(fields_of(verb).items(), key=lambda item: item[0] not in own)


def _parameter(field: str, info: FieldInfo, *, may_lack: bool) -> click.Parameter | None:
    shown = command_line(info)
    if not shown.is_shown:
        return None
    kind = _Kind.of(info.annotation, info.metadata)
    has_default = not info.is_required()
    attributes: dict[str, Any] = {"type": kind.type}
    if shown.complete:
        attributes["shell_complete"] = getattr(completion, shown.complete)
    if shown.metavar:
        attributes["metavar"] = shown.metavar
    if shown.is_argument and kind.is_day:
        attributes |= {"type": DATE["type"]}
    if shown.is_argument:
        return DescribedArgument(
            [field],
            meaning=info.description or "",
            required=not has_default and not may_lack,
            nargs=-1 if kind.several else 1,
            **attributes,
        )
    return FlagOption(
        [*(shown.names or (_flag_name(field, kind, info),)), field],
        help=info.description,
        group=shown.group,
        rare=shown.rare,
        required=not has_default and not may_lack,
        **(attributes | _value_attributes(shown, kind, info)),
    )


def _given(info: FieldInfo, value: Any) -> Any:
    """Value of an option; click gives () for an absent one with several values, whose default may be None."""
    return info.default if value == () and not info.is_required() else value


def _flag_name(field: str, kind: _Kind, info: FieldInfo) -> str:
    dashed = field.replace("_", "-")
    return f"--{dashed}/--no-{dashed}" if kind.is_flag and info.default is not False else f"--{dashed}"


def _value_attributes(shown: CommandLine, kind: _Kind, info: FieldInfo) -> dict[str, Any]:
    """Attributes of an option that depend on the kind of its value."""
    default = None if info.is_required() else info.default
    if kind.is_flag:
        negatable = any("/" in name for name in shown.names) or (not shown.names and default is not False)
        return {"is_flag": True, "default": default, "show_default": negatable and default is not None}
    if kind.is_day:
        return dict(DATES) if kind.several else {**DATE, **({} if shown.complete is None else {"type": DATE["type"]})}
    attributes: dict[str, Any] = {
        "default": default,
        "show_default": shown.default_help and default not in (None, "", ()),
    }
    if kind.is_pairs:
        attributes |= {"multiple": True, "default": (), "callback": _read_pairs}
    elif kind.several and shown.by_commas:
        attributes |= {"default": (), "multiple": True, "callback": _split, "show_default": False}
    elif kind.several:
        attributes["multiple"] = True
    if shown.envvar:
        attributes |= {"envvar": shown.envvar, "show_envvar": True}
    return attributes


def _split(_context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(part.strip() for text in given for part in text.split(",") if part.strip())


def _read_pairs(_context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    return pairs(given)


def pairs(texts: Sequence[str]) -> dict[str, str]:
    """Parse the values of --set.

    Raises:
        SpecError: listing every text that is not KEY=VALUE, and every key with two values.
    """
    problems = [f"--set takes KEY=VALUE, not '{text}'" for text in texts if "=" not in text]
    values: dict[str, str] = {}
    for key, _, value in (text.partition("=") for text in texts):
        if values.setdefault(key, value) != value:
            problems.append(f"--set gives {key} two values, '{values[key]}' and '{value}'")
    if problems:
        raise SpecError(problems)
    return values


@dataclass(frozen=True, slots=True)
class _Kind:
    """Kind of a value on the command line."""

    type: click.ParamType[Any] | None = None
    several: bool = False
    is_flag: bool = False
    is_day: bool = False
    is_pairs: bool = False

    @classmethod
    def of(cls, annotation: Any, metadata: Sequence[Any]) -> _Kind:
        """Kind of a field with this type."""
        origin, inner = get_origin(annotation), get_args(annotation)
        if origin is Annotated:
            return cls.of(inner[0], [*inner[1:], *metadata])
        marked = next((_marked(one) for one in metadata if isinstance(one, Marker)), None)
        if marked is not None:
            return marked
        if origin in (Union, types.UnionType):
            # A text can be anything; else the first alternative that says how to read it: "Path | None" is a path.
            kinds = [cls.of(one, metadata) for one in inner if one is not type(None)]
            return cls() if str in inner else next((kind for kind in kinds if kind != cls()), kinds[0])
        return _of_values(origin, inner) if origin is not None else _of_class(annotation, metadata)


def _marked(marker: Marker) -> _Kind:
    if isinstance(marker, DayType):
        return _Kind(is_day=True)
    if isinstance(marker, OneOf):
        return _Kind(type=click.Choice(marker.names))
    exists, files, folders = marker.exists, marker.files, marker.folders
    path = click.Path(exists=exists, file_okay=files, dir_okay=folders, path_type=Path)
    return _Kind(type=path, several=marker.several)


def _of_values(origin: Any, inner: Sequence[Any]) -> _Kind:
    """Kind of a generic type: names to choose from, pairs, or several values."""
    if origin is Literal:
        return _Kind(type=click.Choice([str(one) for one in inner]))
    if issubclass(origin, Mapping):
        return _Kind(is_pairs=True)
    of_one = _Kind.of(inner[0], ())
    return _Kind(type=of_one.type, several=True, is_day=of_one.is_day)


def _of_class(annotation: Any, metadata: Sequence[Any]) -> _Kind:
    if annotation is bool:
        return _Kind(is_flag=True)
    return _Kind(type=_number(annotation, metadata) if annotation in (int, float) else None)


def _number(annotation: type, metadata: Sequence[Any]) -> click.ParamType[Any]:
    low: Any = None
    high: Any = None
    is_open = False
    for one in metadata:
        if isinstance(one, annotated_types.Gt):
            low, is_open = one.gt, True
        elif isinstance(one, annotated_types.Ge):
            low = one.ge
        elif isinstance(one, annotated_types.Le):
            high = one.le
    if annotation is int:
        return click.INT if low is None and high is None else click.IntRange(low, high, min_open=is_open)
    return click.FLOAT if low is None and high is None else click.FloatRange(low, high, min_open=is_open)
