"""What each metric says of an answer."""

from __future__ import annotations

import math
from dataclasses import fields, replace

import pytest
from world.small_runs import SYNTHETIC, answer

from kgedit.metrics import METRICS, Earlier
from kgedit.metrics.matching import comparable, normalize
from kgedit.records.runs import UNEDITED, Answer, BertScore, JudgedAnswer, with_judgement


def judge(metric: str, text: str, *answers: str, before: str | None = None, **changes: object) -> float | None:
    earlier = None if before is None else Earlier(before)
    return METRICS[metric].judge(answer(text=text, answers=answers, **changes), earlier)


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("  The  Hague. ", "hague"),
        ("Robert C. Newton", "robert c newton"),
        ("Coca-Cola", "cocacola"),
        ("“Justin Trudeau”, I think…", "justin trudeau i think"),
        ("An apple a day\nkeeps", "apple day keeps"),
        ("ÉMILE ZOLA", "émile zola"),
        ("E\u0301mile Zola", "émile zola"),
        ("Theatre", "theatre"),
        ("C++", "c"),
        ("", ""),
    ],
)
def test_normal_form_drops_case_punctuation_articles_and_spaces(text: str, normal: str) -> None:
    assert normalize(text) == normal


def test_an_answer_that_would_normalize_to_nothing_keeps_what_it_has() -> None:
    assert comparable("", "The The") == ("", "the the")
    assert comparable(" !!! ", "!!!") == ("!!!", "!!!")
    assert comparable("the A", "A") == ("the a", "a")
    assert comparable("the Hague", "Hague") == ("hague", "hague")


@pytest.mark.parametrize(
    ("text", "value"),
    [("justin trudeau.", 1.0), ("the Justin Trudeau", 1.0), ("Trudeau", 0.0), ("Justin Trudeau, PM", 0.0), ("", 0.0)],
)
def test_exact_match_wants_the_gold_answer_only(text: str, value: float) -> None:
    assert judge("exact_match", text, "Justin Trudeau", "Trudeau") == value


def test_exact_match_is_not_won_by_silence() -> None:
    assert judge("exact_match", "", "The The") == 0.0
    assert judge("exact_match", "the the", "The The") == 1.0
    assert judge("contains", "", "!!!") == 0.0


@pytest.mark.parametrize(("text", "value"), [("Justin Trudeau", 1.0), ("TRUDEAU", 1.0), ("Pierre Trudeau", 0.0)])
def test_exact_match_any_takes_aliases(text: str, value: float) -> None:
    assert judge("exact_match_any", text, "Justin Trudeau", "Trudeau") == value


@pytest.mark.parametrize(
    ("text", "gold", "value"),
    [
        ("It is Justin Trudeau, the Prime Minister", "Justin Trudeau", 1.0),
        ("Tirana", "Iran", 0.0),
        ("Justin Pierre Trudeau", "Justin Trudeau", 0.0),
        ("Trudeau", "Justin Trudeau", 0.0),
    ],
)
def test_contains_looks_for_whole_words_in_a_row(text: str, gold: str, value: float) -> None:
    assert judge("contains", text, gold) == value


@pytest.mark.parametrize(
    ("text", "gold", "value"),
    [
        ("日本の首都は東京です。", "東京", 1.0),
        ("首都是东京，不是大阪。", "东京", 1.0),
        ("首都は大阪です。", "東京", 0.0),
        ("เมืองหลวงคือกรุงเทพมหานครครับ", "กรุงเทพมหานคร", 1.0),
        ("เมืองหลวงคือเชียงใหม่", "กรุงเทพมหานคร", 0.0),
        ("수도는 서울입니다", "서울", 1.0),
        ("答えはOsloです", "Oslo", 1.0),
        # Without a dictionary a name is found in longer words, but a katakana word, a Korean one and a digit have ends.
        ("東京都", "東京", 1.0),
        ("東京都", "京都", 1.0),
        ("アメリカンリーグ", "アメリカ", 0.0),
        ("北서울 북서울", "서울", 1.0),
        ("북서울", "서울", 0.0),
        ("12年", "2", 0.0),
        ("กำ", "ก", 0.0),
    ],
)
def test_contains_finds_names_in_scripts_without_spaces(text: str, gold: str, value: float) -> None:
    assert judge("contains", text, gold) == judge("contains_any", text, gold) == value
    assert judge("single_answer", text, gold) == value


@pytest.mark.parametrize(
    ("text", "gold", "value"),
    [
        ("He ruled the Indo - Greek kingdom.", "Indo-Greek", 1.0),
        ("He ruled the Indo-Greek kingdom.", "Indo - Greek", 1.0),
        ("He ruled the Indo–Greek kingdom.", "Indo Greek", 1.0),
        ("Oslo - the capital", "Oslo", 1.0),
        ("Schleswig-Holstein", "Holstein", 0.0),
        ("Jonas Gahr Store", "Jonas Gahr Støre", 1.0),
        ("Jonas Gahr Støre", "Jonas Gahr Store", 1.0),
        ("It is Lodz.", "Łódź", 1.0),
        ("HAUPTSTRASSE", "Hauptstraße", 1.0),
        ("Ｏｓｌｏ", "Oslo", 1.0),
        ("Oslofjord", "Oslo", 0.0),
        ("It is 3.5", "5", 0.0),
        ("が", "か", 0.0),
        ("!!! is a band", "!!!", 1.0),
        ("It is", " ", 0.0),
    ],
)
def test_contains_ignores_accents_and_spaces_around_hyphens(text: str, gold: str, value: float) -> None:
    assert judge("contains", text, gold) == judge("contains_any", text, gold) == value


@pytest.mark.parametrize(
    ("text", "gold", "value"),
    [
        ("l'Allemagne", "Allemagne", 1.0),
        ("L’Allemagne", "Allemagne", 1.0),
        ("Réponse : L'Allemagne, je crois.", "Allemagne", 1.0),
        ("C'est la capitale d'Allemagne.", "Allemagne", 1.0),
        ("la capitale dell'Emilia-Romagna", "Emilia-Romagna", 1.0),
        ("à l'université Côte d'Azur", "Université Côte d'Azur", 1.0),
        ("C'est L'Aquila.", "L'Aquila", 1.0),
        ("C'est l'acteur principal.", "acteur", 1.0),
        ("Le siège n'est pas connu, c'est beau.", "Est", 0.0),
        ("L'un sait qu'on y va.", "UN", 0.0),
        ("D'Angelo Russell", "Angelo Russell", 0.0),
        ("It is by D'Angelo.", "Angelo", 0.0),
        ("Denis O'Brien", "Brien", 0.0),
        ("rock'n'roll", "roll", 0.0),
        ("it's", "s", 0.0),
    ],
)
def test_contains_finds_names_after_elided_words(text: str, gold: str, value: float) -> None:
    assert judge("contains", text, gold) == judge("contains_any", text, gold) == value
    assert judge("single_answer", text, gold) == value
    assert judge("token_f1", "l'Allemagne", "Allemagne") == 0.0  # as in SQuAD


def test_exact_match_and_token_f1_keep_the_published_normalization() -> None:
    for text, gold in (("Jonas Gahr Store", "Jonas Gahr Støre"), ("Indo - Greek", "Indo-Greek")):
        assert judge("exact_match", text, gold) == judge("exact_match_any", text, gold) == 0.0
        assert judge("first_line", text, gold) == 0.0
        assert judge("token_f1", text, gold) < 1.0


@pytest.mark.parametrize(
    ("text", "gold", "value"),
    [
        ("Justin Trudeau", "Justin Trudeau", 1.0),
        ("Pierre Trudeau", "Justin Trudeau", 0.5),
        ("Trudeau Trudeau Trudeau", "Justin Trudeau", 0.4),
        ("the", "Justin Trudeau", 0.0),
        ("Mark Carney", "Justin Trudeau", 0.0),
    ],
)
def test_token_f1_counts_shared_words_once_each(text: str, gold: str, value: float) -> None:
    assert judge("token_f1", text, gold) == pytest.approx(value)


def test_contains_any_takes_aliases_and_no_empty_ones() -> None:
    assert judge("contains_any", "It was Trudeau.", "Justin Trudeau", "Trudeau") == 1.0
    assert judge("contains_any", "It was Harper.", "Justin Trudeau", "Trudeau", "") == 0.0


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("The leader is Justin Trudeau.", 1.0),
        ("It was Trudeau, I think.\n", 1.0),
        ("Justin Trudeau\nB: Stephen Harper", 0.0),
        ("Stephen Harper", 0.0),
        ("", 0.0),
        ("The head is Trudeau. " * 2, 1.0),
        ("The head is Trudeau. " * 3, 0.0),
        ("Justin Trudeau of the house of the house of the house of the house of", 0.0),
    ],
)
def test_a_single_answer_is_named_in_one_line_and_does_not_go_in_circles(text: str, value: float) -> None:
    assert judge("single_answer", text, "Justin Trudeau", "Trudeau") == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("答案是北京。" * 5, 0.0),
        ("中华人民共和国的首都是北京。中华人民共和国成立于1949年。中华人民共和国主席在北京。", 1.0),
    ],
)
def test_repeated_names_in_chinese_are_no_circles(text: str, value: float) -> None:
    assert judge("single_answer", text, "北京") == value


def test_a_judges_verdict_is_read_and_without_one_nothing_is_said() -> None:
    metric, plain = METRICS["judge"], answer()
    same = {one.name: getattr(plain, one.name) for one in fields(plain)}
    judged = [JudgedAnswer(**same, right=right) for right in (True, False)]
    assert [metric.judge(one, None) for one in judged] == [1.0, 0.0]
    assert metric.judge(plain, None) is None


EARLIER = Earlier(
    "", probability=0.1, old_probability=0.6, static_probability=0.5, alternative_probability=0.2,
    highest_alternative=0.3,
)  # fmt: skip


def in_scenario(name: str, **changes: object) -> Answer:
    measured = {
        "probability": 0.4, "old_probability": 0.1, "static_probability": 0.3, "alternative_probability": 0.3,
        "highest_alternative": 0.35,
    }  # fmt: skip
    return answer(of=SYNTHETIC, scenario=name, **(measured | changes))


@pytest.mark.parametrize("scenario", ["AddObject", "AddRelation", "AddEntity"])
def test_an_added_fact_gains_and_is_preferred_to_what_was_never_right(scenario: str) -> None:
    added = in_scenario(scenario)
    assert METRICS["gain"].judge(added, EARLIER) == pytest.approx(0.3)
    assert METRICS["gain"].judge(replace(added, probability=0.0), EARLIER) == pytest.approx(-0.1)
    assert METRICS["gain"].judge(added, None) is None
    assert METRICS["gain"].judge(replace(added, model_state=UNEDITED), EARLIER) is None
    assert METRICS["preferred"].judge(added, None) == 1.0
    assert METRICS["preferred"].judge(replace(added, highest_alternative=0.4), None) == 0.0
    assert METRICS["preferred"].judge(replace(added, highest_alternative=None), None) is None
    assert METRICS["archived"].judge(added, EARLIER) is None


def test_what_stays_right_may_not_be_pushed_out() -> None:
    metric = METRICS["static_loss"]
    assert metric.judge(in_scenario("AddObject"), EARLIER) == pytest.approx(0.2)
    assert metric.judge(in_scenario("AddObject", static_probability=0.9), EARLIER) == 0.0
    assert metric.judge(in_scenario("AddRelation"), EARLIER) is None
    assert not metric.higher_is_better


def test_an_archived_fact_loses_its_standing_and_nothing_takes_its_place() -> None:
    archived = in_scenario("Archive")
    assert METRICS["archive_drop"].judge(archived, EARLIER) == pytest.approx(0.6 / 0.8 - 0.1 / 0.4)
    assert METRICS["archived"].judge(archived, EARLIER) == 1.0
    assert METRICS["archived"].judge(replace(archived, old_probability=0.31), EARLIER) == 0.0
    assert METRICS["replaced"].judge(archived, EARLIER) == pytest.approx(0.05)
    assert METRICS["replaced"].judge(replace(archived, highest_alternative=0.1), EARLIER) == 0.0
    assert METRICS["gain"].judge(archived, EARLIER) is None
    # All that the model believed falls alike: the archived fact has lost nothing against the others.
    fallen = replace(archived, old_probability=0.06, alternative_probability=0.02)
    assert METRICS["archive_drop"].judge(fallen, EARLIER) == pytest.approx(0.0)


def test_bertscores_are_read_beside_a_verdict_and_without_them_nothing_is_said() -> None:
    measured = BertScore(precision=0.5, recall=0.75, f1=0.6)
    judged = with_judgement(with_judgement(answer(), right=True), bertscore=measured)
    assert METRICS["bertscore"].judge(judged, None) == 0.6
    assert METRICS["bertscore_precision"].judge(judged, None) == 0.5
    assert METRICS["bertscore_recall"].judge(judged, None) == 0.75
    assert METRICS["judge"].judge(judged, None) == 1.0
    assert METRICS["bertscore"].judge(answer(), None) is None


def test_token_match_is_what_was_measured_under_any_generation() -> None:
    metric = METRICS["token_match"]
    assert metric.judge(answer(of=SYNTHETIC, token_match=0.75), None) == 0.75
    assert metric.judge(answer(token_match=0.25), None) == 0.25
    assert metric.applies_to(answer(of=SYNTHETIC))
    assert metric.applies_to(answer())
    assert metric.judge(answer(), None) is None


@pytest.mark.parametrize(("text", "value"), [("", 1.0), (" \n", 1.0), (".", 0.0), ("No", 0.0)])
def test_empty_is_an_answer_without_a_character(text: str, value: float) -> None:
    assert judge("empty", text, "Ottawa") == value


@pytest.mark.parametrize(
    ("text", "gold", "value"),
    [
        ("Ottawa\nQ: Who?", "Ottawa", 1.0),
        ("\nOttawa.\n", "ottawa", 1.0),
        ("Ottawa, Canada\nOttawa", "Ottawa", 0.0),
        ("", "The The", 0.0),
    ],
)
def test_first_line_reads_no_further(text: str, gold: str, value: float) -> None:
    assert judge("first_line", text, gold) == value


def test_difference_and_success_compare_the_new_answer_with_the_old_one() -> None:
    def score(metric: str, new: float | None, old: float | None) -> float | None:
        return METRICS[metric].judge(answer(of=SYNTHETIC, probability=new, old_probability=old), None)

    assert score("probability", 0.25, None) == 0.25
    assert score("probability_difference", 0.25, 0.75) == -0.5
    assert [score("probability_success", *pair) for pair in ((0.3, 0.2), (0.2, 0.3), (0.2, 0.2))] == [1.0, 0.0, 0.0]
    for metric in ("probability_difference", "probability_success"):
        assert score(metric, 0.25, None) is None
        assert METRICS[metric].applies_to(answer(of=SYNTHETIC, axis="personas"))
        assert not METRICS[metric].applies_to(answer(of=SYNTHETIC, axis="locality"))
        assert not METRICS[metric].applies_to(answer())


def test_bleedover_is_what_a_neighbours_answer_lost_and_no_gain_makes_up_for_it() -> None:
    def lost(before: float | None, now: float | None, **changes: object) -> float | None:
        given = answer(of=SYNTHETIC, axis="locality", probability=now, **changes)
        return METRICS["bleedover"].judge(given, Earlier("Ottawa", before))

    assert lost(0.5, 0.125) == 0.375
    assert lost(0.5, 0.75) == 0.0
    assert lost(None, 0.5) is None
    assert lost(0.5, 0.125, after=None) is None
    assert METRICS["bleedover"].judge(answer(of=SYNTHETIC, axis="locality", probability=0.5), None) is None
    assert not METRICS["bleedover"].applies_to(answer(of=SYNTHETIC, axis="update"))


def test_rouge_compares_texts_by_words_pairs_and_order() -> None:
    gold = "Olof Gren became mayor of Arvika"
    assert judge("rouge_1", "Arvika has a mayor, Olof Gren", gold) == pytest.approx(2 * 4 / 12)
    assert judge("rouge_2", "Arvika has a mayor, Olof Gren", gold) == pytest.approx(2 * 1 / 10)
    assert judge("rouge_l", "Olof Gren became the leader of Arvika", gold) == pytest.approx(2 * 5 / 13)
    assert judge("rouge_l", "東京は首都です", "東京です") == pytest.approx(2 * 4 / 11)
    assert judge("rouge_l", "Émile", "émile") == judge("rouge_l", "!", "!") == 1.0
    assert judge("rouge_l", "another", "the first text", "another text") == pytest.approx(2 / 3)
    assert judge("rouge_l", "", gold) == 0.0


def test_a_chinese_character_is_a_word_of_repetition_and_fluency() -> None:
    said = "北京是中国的首都。"
    assert (judge("single_answer", said, "北京"), judge("single_answer", said * 5, "北京")) == (1.0, 0.0)
    assert judge("fluency", said) == judge("ngram_entropy", said) * 2 == judge("fluency", " ".join(said)) > 0
    assert judge("fluency", "北" * 9) == judge("ngram_entropy", "北" * 9) == 0.0


def test_fluency_is_the_entropy_of_word_pairs_and_triples() -> None:
    assert judge("fluency", "a b c d e f", "x") == pytest.approx(2 / 3 * math.log2(5) + 4 / 3 * math.log2(4))
    assert judge("fluency", "no no no no", "x") == 0.0
    assert judge("fluency", "a b a b a", "x") == pytest.approx(
        2 / 3 * 1.0 + 4 / 3 * -(2 / 3 * math.log2(2 / 3) + 1 / 3 * math.log2(1 / 3))
    )
    assert judge("fluency", "", "x") == judge("fluency", "two words", "x") == 0.0


def test_ngram_entropy_is_on_the_scale_of_published_tables() -> None:
    """The mean of the two weighted entropies; a comma and a point count, thousands and hyphens are in a word."""
    assert judge("ngram_entropy", "a b c d e f", "x") == pytest.approx(judge("fluency", "a b c d e f", "x") / 2)
    spaced = judge("ngram_entropy", "In 26,000 well-known towns , yes .", "x")
    assert judge("ngram_entropy", "In 26,000 well-known towns, yes.", "x") == spaced
    assert spaced == pytest.approx(1 / 3 * math.log2(6) + 2 / 3 * math.log2(5))
    assert judge("ngram_entropy", "no no no no", "x") == judge("ngram_entropy", "", "x") == 0.0


def test_unchanged_compares_with_the_unedited_model_to_the_letter() -> None:
    metric = METRICS["unchanged"]
    assert judge("unchanged", "Ottawa", "Paris", before="Ottawa", axis="locality") == 1.0
    assert judge("unchanged", "Paris", "Paris", before="Ottawa", axis="locality") == 0.0
    assert judge("unchanged", "ottawa", "Paris", before="Ottawa", axis="locality") == 0.0
    assert judge("unchanged", "Ottawa", "Paris", before=None, axis="locality") is None
    assert judge("unchanged", "Ottawa", "Paris", before="Ottawa", axis="locality", after=None) is None
    assert metric.applies_to(answer(axis="locality"))
    assert not metric.applies_to(answer(axis="update"))
