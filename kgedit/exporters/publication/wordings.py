"""Who worded the questions of a publication: kgedit's templates, other templates, or a language model."""

from __future__ import annotations

from collections.abc import Iterator

from kgedit import __version__
from kgedit.exporters.publication.content import Publication, PublishedTimestep
from kgedit.wording.catalogues import language_catalogue, language_codes
from kgedit.wording.personas import persona_version, shipped_personas
from kgedit.wording.templates import template_version


def source_of_questions(publication: Publication) -> str:
    """The end of a sentence on the questions' source and its licence, and a line for each exception."""
    exceptions = [f"- `{step.config}`: {text}" for step in publication.timesteps for text in _exceptions(step)]
    if all("templates" in _other_catalogues(step) for step in publication.timesteps):
        said = "questions are not rendered from kgedit's templates:"
    else:
        said = "questions are rendered from kgedit's templates, whose own text is under Apache 2.0"
        said += ", except:" if exceptions else "."
    return "\n".join((f"{said}\n", *exceptions)) if exceptions else said


def are_worded_by_models(publication: Publication) -> bool:
    """Whether a language model worded questions."""
    return any("verbalizer" in step.timestep.manifest for step in publication.timesteps)


def _exceptions(step: PublishedTimestep) -> Iterator[str]:
    for name, version in _other_catalogues(step).items():
        yield f"{name} other than those of kgedit {__version__} (hash {version})"
    if about := step.timestep.manifest.get("verbalizer"):
        axes = {axis: counts["sources"] for axis, counts in about["axes"].items()}
        shares = (
            f"{found.get('model', 0):,} of {sum(found.values()):,} {axis}" for axis, found in axes.items() if found
        )
        yield f"worded by the language model {about['model']}: {', '.join(shares)}"


def _other_catalogues(step: PublishedTimestep) -> dict[str, str]:
    """Hash of the templates and of the personas, if these are not of this version of kgedit."""
    codes, settings = language_codes(), step.timestep.manifest.get("settings", {})
    shipped = {
        "templates": [template_version(language_catalogue(code)) for code in codes],
        "personas": [persona_version(shipped_personas(code)) for code in codes],
    }
    return {name: settings[name] for name, known in shipped.items() if settings.get(name, known[0]) not in known}
