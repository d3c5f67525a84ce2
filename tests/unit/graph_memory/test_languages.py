"""Memories in other languages: words around names are read in English, facts are written in the memory's language."""

from __future__ import annotations

import datetime
import re
from pathlib import Path

import everyday as measuring
import pytest
from everyday_questions import read_nothing, read_questions
from world.small_memory import EMBED, NORWAY, edit

from kgedit.errors import KgeditError, StoreError
from kgedit.graph_memory.building import MemoryBuilder, open_memory
from kgedit.graph_memory.graph_memory import GraphMemory
from kgedit.graph_memory.languages import guess_language, has_marks, languages, read_lexicon
from kgedit.graph_memory.memory_file import read_memory_file, write_memory_file
from kgedit.graph_memory.relations import SLOT
from kgedit.graph_memory.retrieval import Search
from kgedit.sample.generate import write_world
from kgedit.verbs.load_dump import DumpOptions, load_dump
from kgedit.verbs.memory import build_memory, load_memory, update_memory
from kgedit.wording.catalogues import language_catalogue
from kgedit.wording.name_index import Mention


@pytest.mark.parametrize(
    ("language", "question", "name", "english"),
    [
        ("de", "Wo wurde der Regierungschef von Norwegen geboren?", "Norwegen",
         "where was the head of government of Norwegen born?"),
        ("de", "Geburtsort des Königs der Slowakei?", "Slowakei", "place of birth of the king of the Slowakei?"),
        ("de", "Auf welchem Kontinent liegt Norwegen?", "Norwegen", "on which continent is Norwegen?"),
        ("fr", "Sur quel continent est la Norvège ?", "la Norvège", "on which continent is la Norvège ?"),
        ("de", "WER REGIERT DENN NORWEGEN?", "NORWEGEN", "who governs NORWEGEN?"),
        ("fr", "Où est né l’entraîneur d'Alfa Romeo ?", "Alfa Romeo", "where is born the coach of Alfa Romeo ?"),
        ("es", "¿Cuál es la capital del país de Angela Merkel?", "Angela Merkel",
         "what is the capital of the country of Angela Merkel?"),
        ("fr", "Quel est le pays de nationalité de Zinédine Zidane ?", "Zinédine Zidane",
         "what is the country of citizenship of Zinédine Zidane ?"),
        ("de", "Wer regiert Norwegen am 5.3.2019?", "Norwegen", "who governs Norwegen am 2019-03-05?"),
        ("fr", "Qui est, le 05/03/2019, le maire de Lyon ?", "Lyon", "who is, the 2019-03-05, the mayor of Lyon ?"),
        ("fr", "Qui est maire de Lyon en févr. 2019 ?", "Lyon", "who is mayor of Lyon in February. 2019 ?"),
        ("es", "¿Quién es alcalde de Boston en dic. de 2019?", "Boston",
         "who is mayor of Boston in December. of 2019?"),
        ("de", "Wer regiert Norwegen, 31.13.2019 oder 1.2.3.2019?", "Norwegen",
         "who governs Norwegen, 31.13.2019 or 1.2.3.2019?"),
    ],
)  # fmt: skip
def test_words_around_a_name_become_english(language: str, question: str, name: str, english: str) -> None:
    lexicon = read_lexicon(language)
    assert lexicon is not None
    at = question.index(name)
    assert lexicon.read(question, [(at, at + len(name))]) == english


def test_a_name_is_kept_even_if_its_words_are_in_the_lexicon() -> None:
    lexicon = read_lexicon("de")
    assert lexicon is not None
    text = "Wer ist Die Partei?"
    assert lexicon.read(text, [(8, 18)]) == "who is Die Partei?"
    assert lexicon.read(text, []) == "who is the political party?"


@pytest.mark.parametrize(
    ("language", "relation", "label", "relations", "question"),
    [
        ("fr", "P6", "Allemagne", (), "Qui est le chef du gouvernement de l'Allemagne ?"),
        ("fr", "P6", "Royaume-Uni", (), "Qui est le chef du gouvernement du Royaume-Uni ?"),
        ("fr", "P19", "Angela Merkel", ("P19",), "Quel est le lieu de naissance d'Angela Merkel ?"),
        ("fr", "P17", "Real Madrid", ("P17", "P286"), "Dans quel pays se trouve le Real Madrid ?"),
        ("de", "P6", "Vereinigtes Königreich", (), "Wer ist der Regierungschef des Vereinigten Königreichs?"),
        (
            "de",
            "P6",
            "Vereinigtes Königreich",
            ("P166", "P1365"),
            "Wer ist der Regierungschef des Vereinigten Königreichs?",
        ),
        (
            "de",
            "P6",
            "Vereinigtes Königreich",
            ("P6", "P27"),
            "Wer ist der Regierungschef des Vereinigten Königreichs?",
        ),
        ("de", "P286", "1. FC Köln", (), "Wer trainiert den 1. FC Köln?"),
        ("de", "P1308", "Bundeskanzler", (), "Wer hat das Amt des Bundeskanzlers inne?"),
        ("fr", "P127", "États-Unis", (), "À qui appartiennent les États-Unis ?"),
        ("fr", "P30", "États-Unis", (), "Sur quel continent se trouvent les États-Unis ?"),
        ("es", "P6", "Reino Unido", (), "¿Quién es el jefe de Gobierno del Reino Unido?"),
        ("es", "P286", "Carlos Alcaraz", ("P286", "P27"), "¿Quién entrena a Carlos Alcaraz?"),
    ],
)
def test_facts_are_worded_with_articles(
    language: str, relation: str, label: str, relations: tuple[str, ...], question: str
) -> None:
    lexicon = read_lexicon(language)
    assert lexicon is not None
    assert lexicon.fill(lexicon.questions[relation], label, relations=relations) == question


def test_other_wordings_and_hints_are_not_inflected() -> None:
    lexicon = read_lexicon("de")
    assert lexicon is not None
    assert lexicon.fill(f"Wie alt ist die {SLOT}?", "Schweiz", " (Land)") == "Wie alt ist die Schweiz (Land)?"
    assert (
        lexicon.fill(lexicon.questions["P6"], "Schweiz", " (Land)") == "Wer ist der Regierungschef der Schweiz (Land)?"
    )


def test_the_memory_asks_in_whole_sentences() -> None:
    memory = GraphMemory(EMBED, language="de")
    memory.learn([edit("Schweiz", "P6", "Alain")])
    [finding] = memory.find(["Wer ist der Regierungschef von Schweiz?"])
    assert finding.paths[0].rows[0].question == "Wer ist der Regierungschef der Schweiz?"


def mentions(text: str, *names: str) -> list[Mention]:
    starts = [(text.index(name), name) for name in names]
    return [Mention((0,), start, start + len(name), nested=False) for start, name in starts]


@pytest.mark.parametrize(
    ("text", "names", "english"),
    [
        ("Où est né le roi de la Norvège ?", ("la", "Norvège"), "where is born the king of the Norvège ?"),
        ("Quel est le maire de LA ?", ("LA",), "what is the mayor of LA ?"),
        ("Qui est le roi de MARS ?", ("MARS", "roi"), "who is the king of MARS ?"),
    ],
)
def test_an_article_in_lower_case_is_no_name(text: str, names: tuple[str, ...], english: str) -> None:
    lexicon = read_lexicon("fr")
    assert lexicon is not None
    assert lexicon.read_around(text, mentions(text, *names)) == english


def test_the_name_in_an_office_may_be_the_only_name() -> None:
    lexicon = read_lexicon("de")
    assert lexicon is not None
    assert lexicon.names_of("Vereinigte Staaten")[-1] == "Vereinigten Staaten"
    assert lexicon.names_of("Rotes Kreuz") == ("Roten Kreuz",)
    assert lexicon.names_of("Freie Demokratische Partei") == ("Freien Demokratischen Partei",)
    assert lexicon.names_of("Walter Scheel") == ()
    assert lexicon.names_of("Peter Müller") == ()
    text = "Wer ist Präsident der Vereinigten Staaten?"
    found = mentions(text, "Präsident der Vereinigten Staaten", "Vereinigten Staaten")
    assert lexicon.read_around(text, found) == "who is Präsident der Vereinigten Staaten?"
    assert lexicon.read_around(text, found, inner=True) == "who is president of the Vereinigten Staaten?"
    assert lexicon.read_around(text, found[:1], inner=True) == "who is Präsident der Vereinigten Staaten?"


def test_the_memory_inflects_the_adjectives_that_templates_inflect() -> None:
    lexicon = read_lexicon("de")
    assert lexicon is not None
    catalogue = (language_catalogue("de") / "catalogue.yaml").read_text(encoding="utf-8")
    adjectives = {word for found in re.findall(r"\|(Weiß[^)]*)\)", catalogue) for word in found.split("|")}
    assert "Tot" in adjectives
    assert [word for word in adjectives if lexicon.names_of(f"{word}e Union") != (f"{word}en Union",)] == []


def test_english_has_no_lexicon_and_an_unknown_language_names_those_there_are() -> None:
    assert read_lexicon("en") is None
    with pytest.raises(KgeditError, match=r"language 'xx'.* en, de, es, fr"):
        read_lexicon("xx")


@pytest.mark.parametrize("language", languages()[1:])
def test_every_lexicon_words_the_same_relations_around_their_subject(language: str) -> None:
    lexicon, german = read_lexicon(language), read_lexicon("de")
    assert lexicon is not None
    assert german is not None
    assert lexicon.questions.keys() == german.questions.keys()
    assert all(question.count(SLOT) == 1 for question in lexicon.questions.values())


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Wo wurde der Trainer von Feyenoord geboren?", "de"),
        ("Qui est le président du Chili ?", "fr"),
        ("¿Quién es el alcalde de Boston?", "es"),
        ("Who is the president of Chile?", "en"),
        ("Where was Ursula von der Leyen born?", "en"),
        ("La Liga table", "en"),
        ("mayor boston", "en"),
    ],
)
def test_the_language_of_a_question_is_guessed_by_its_words(text: str, language: str) -> None:
    assert guess_language(text) == language
    assert has_marks(text) or language == "en"


def test_most_english_questions_have_no_marks_of_another_language() -> None:
    assert not has_marks("Who is the president of Chile?")


@pytest.mark.models
def test_a_multilingual_embedder_is_a_folder(tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = re.findall(r"\S+", "who is the head of government wer ist der regierungschef von norwegen [UNK]")
    tokenizer = Tokenizer(models.WordLevel({word: at for at, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    folder = tmp_path / "paraphrase-multilingual-stand-in"
    SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=16)]).save(str(folder))
    memory = GraphMemory(EMBED, language="de")
    memory.learn([edit("Norwegen", "P6", "Jonas"), edit("Schweden", "P6", "Magdalena")])
    write_memory_file(tmp_path / "facts.kgmemory", memory.tables(), {"sources": [], "counts": memory.counts()})
    loaded = load_memory(tmp_path / "facts.kgmemory", embedder=str(folder))
    [finding] = loaded.find(["Wer ist der Regierungschef von Norwegen?"], Search(gate=0.0))
    assert [row.answer for row in finding.paths[0].rows] == ["Jonas"]


def test_facts_are_written_in_the_language_and_a_stored_memory_keeps_it() -> None:
    memory = GraphMemory(EMBED, language="de")
    memory.learn([edit("Norwegen", "P6", "Jonas")])
    [finding] = memory.find(["Wer ist der Regierungschef von Norwegen?"])
    assert finding.paths[0].rows[0].question == "Wer ist der Regierungschef von Norwegen?"
    again = GraphMemory(EMBED)
    again.load(memory.state())
    assert again.language == "de"
    assert again.find(["Wer ist Regierungschef von Norwegen?"])[0].paths[0].rows[0].answer == "Jonas"
    again.load_tables(GraphMemory(EMBED).tables())
    assert again.language == "en"


def test_a_file_keeps_the_language_too(tmp_path: Path) -> None:
    memory = GraphMemory(EMBED, language="fr")
    memory.learn([edit("Norvège", "P6", "Jonas")])
    write_memory_file(tmp_path / "memory", memory.tables(), {})
    again = GraphMemory(EMBED)
    again.load_tables(read_memory_file(tmp_path / "memory").tables)
    assert again.language == "fr"


def test_an_english_memory_has_no_table_of_its_language() -> None:
    memory = GraphMemory(EMBED)
    memory.learn([edit("Norway", "P6", "Jonas")])
    assert "language" not in memory.tables()
    assert memory.find([NORWAY])[0].paths[0].rows[0].question == NORWAY


def load_sample(folder: Path, language: str) -> Path:
    """Load the sample's snapshots with labels of a language; returns the home."""
    for path in write_world(folder / "dumps"):
        if path.name.endswith(".json.gz"):
            day = datetime.date.fromisoformat(path.name.partition(".")[0])
            options = DumpOptions(languages=(language, "en"))
            load_dump(folder / language, path, day, options=options, steps=lambda *_: lambda *_: None)
    return folder / language


@pytest.mark.slow
def test_building_needs_snapshots_of_the_language_and_an_update_keeps_it(tmp_path: Path) -> None:
    home = load_sample(tmp_path, "de")
    with pytest.raises(StoreError, match=r"labels of .* are in 'de'.*languages fr and en"):
        build_memory(tmp_path / "x.kgmemory", home=home, language="fr")
    built, _ = build_memory(tmp_path / "x.kgmemory", home=home, language="de", as_of="2023-02-27")
    assert built.manifest["language"] == "de"
    with pytest.raises(KgeditError, match="in the language 'de', and not in 'fr'"):
        MemoryBuilder(tmp_path / "x.kgmemory", language="fr")
    updated, changed = update_memory(tmp_path / "x.kgmemory", home=home)
    assert updated.manifest["language"] == "de"
    assert changed is not None
    assert any(line.startswith("Finnland, head of government: Petteri Orpo") for line in changed.begun)


OFFICES = {
    "de": "Wer ist der Präsident der Vereinigten Staaten?",
    "es": "¿Quién es el presidente de los Estados Unidos?",
}


@pytest.mark.models
@pytest.mark.parametrize(("language", "least"), [("de", 60), ("fr", 30), ("es", 30)])
def test_questions_of_a_language_get_their_facts(language: str, least: int, tmp_path: Path) -> None:
    build_memory(tmp_path / "x.kgmemory", home=load_sample(tmp_path, language), language=language)
    memory = open_memory(tmp_path / "x.kgmemory", embedder="all-minilm-l6-v2", device="cpu")
    questions = read_questions(language)
    assert len(questions) >= least
    if language in OFFICES:  # an item of the office, without facts, is a name too
        [finding] = memory.find([OFFICES[language]])
        assert [row.answer for row in finding.paths[0].rows] == ["Joe Biden"]
    asked = measuring.ask_all(memory, questions)
    single = [each.found for each in asked if not each.question.is_two_hops]
    two_hops = [each.found for each in asked if each.question.is_two_hops]
    assert sum(single) / len(single) > 0.85
    assert sum(two_hops) / len(two_hops) > 0.7
    passed = measuring.ask_all(memory, read_nothing(language))
    assert sum(bool(each.facts) for each in passed) <= 1
