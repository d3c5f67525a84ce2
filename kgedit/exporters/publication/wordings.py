"""Who worded the questions of a publication: kgedit's templates, other templates, or a language model."""

from __future__ import annotations

from collections.abc import Iterator

from kgedit.exporters.publication.content import Publication, PublishedTimestep
from kgedit.wording.catalogues import language_catalogue, language_codes
from kgedit.wording.personas import persona_version, shipped_personas
from kgedit.wording.templates import template_version


def source_of_questions(publication: Publication) -> str:
    """The end of a sentence on the questions' source and its licence, and a line for each exception."""
    exceptions = [f"- `{step.config}`: {text}" for step in publication.timesteps for text in _exceptions(step)]
    if all("templates" in _other_catalogues(step) for step in publication.timesteps):
        said = "questions are rendered from templates; templates of kgedit are under Apache 2.0:"
    else:
        said = "questions are rendered from kgedit's templates, whose own text is under Apache 2.0"
        said += ", except:" if exceptions else "."
    return "\n".join((f"{said}\n", *exceptions)) if exceptions else said


def are_worded_by_models(publication: Publication) -> bool:
    """Whether a language model worded questions."""
    return any(_shares_of_model(step) for step in publication.timesteps)


def _exceptions(step: PublishedTimestep) -> Iterator[str]:
    for name, version in _other_catalogues(step).items():
        yield f"{name} of another version of kgedit, or of the user (hash {version})"
    if shares := _shares_of_model(step):
        yield f"worded by the language model {step.timestep.manifest['verbalizer']['model']}: {', '.join(shares)}"


def _shares_of_model(step: PublishedTimestep) -> list[str]:
    """How many questions of each axis a language model worded, without axes for which every reply was rejected."""
    axes = step.timestep.manifest.get("verbalizer", {}).get("axes", {})
    sources = {axis: counts["sources"] for axis, counts in axes.items()}
    return [
        f"{found['model']:,} of {sum(found.values()):,} {axis}" for axis, found in sources.items() if found.get("model")
    ]


def _other_catalogues(step: PublishedTimestep) -> dict[str, str]:
    """Hash of the templates and of the personas, if these are not of this version of kgedit."""
    codes, settings = language_codes(), step.timestep.manifest.get("settings", {})
    shipped = {
        "templates": [template_version(language_catalogue(code)) for code in codes],
        "personas": [persona_version(shipped_personas(code)) for code in codes],
    }
    return {name: settings[name] for name, known in shipped.items() if settings.get(name, known[0]) not in known}
