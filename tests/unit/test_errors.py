from __future__ import annotations

import inspect

from kgedit import errors


def test_the_tree_in_the_docstring_names_every_error() -> None:
    classes = {name for name, value in vars(errors).items() if inspect.isclass(value)}
    drawn = {line.split()[1] for line in (errors.__doc__ or "").splitlines() if line.strip().startswith(("├", "└"))}
    assert drawn | {"KgeditError"} == classes


def test_every_error_is_a_kgedit_error() -> None:
    assert all(issubclass(value, errors.KgeditError) for value in vars(errors).values() if inspect.isclass(value))


def test_a_spec_error_lists_every_problem() -> None:
    assert str(errors.SpecError(["a is wrong", "b too"])).endswith("  - a is wrong\n  - b too")


def test_a_missing_extra_says_how_to_install_it() -> None:
    assert "pip install 'kgedit[models]'" in str(errors.MissingExtraError("torch", "models"))


def test_python_callers_read_arguments_and_commands_their_options() -> None:
    error = errors.TimestepError("changes.html already exists. Replace it: --overwrite")
    assert str(error) == "changes.html already exists. Replace it: overwrite=True"
    with errors.shown_by_command():
        assert str(error) == "changes.html already exists. Replace it: --overwrite"
    assert str(errors.StoreError("Leave out --kinds.")) == "Leave out kinds."
    assert str(errors.SpecError(["give another --out, or --overwrite"])).endswith("give another out, or overwrite=True")


def test_whole_commands_stay_as_a_shell_reads_them() -> None:
    message = "No snapshot is loaded. Load one: kgedit load-dump PATH --date DATE"
    assert errors.for_python(message) == message
    assert errors.for_python("Run kgedit export-timestep --all. Or give --out.").endswith("--all. Or give out.")
