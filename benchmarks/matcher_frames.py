"""Frames of the relation matcher's training texts: {n} is a noun, {a} a question, {s} a statement, {t} any text.

{h} and {i} are head nouns, {i} that of the first of two hops; X is the subject and Y a value (benchmarks/matcher.py).
"""

from __future__ import annotations

NOUN_FRAMES = (
    *(
        "{n}",
        "{n}",
        "{n}?",
        "{n} now",
        "current {n}",
        "{n} name?",
        "name of {n}",
        "{n} please",
        "the {n} is",
        "{n} ???",
    ),
    *("{wh} is {n}?", "{wh} is {n}?", "{wh}'s {n}?", "{wh} is the current {n}?", "so {wh}'s {n} now", "{wh} was {n}?"),
    *("tell me {n}", "please tell me {n}", "give me {n}", "name {n}", "state {n}", "list {n}", "find {n} for me"),
    *("I would like to know {wh} {n} is", "could you tell me {wh} {n} is?", "do you know {n}?", "look up {n}"),
    *("can you remind me {wh} {n} is", "I need {n}", "what is the name of {n}?", "I was wondering {wh} {n} is"),
    *("Y is {n}, right?", "is Y still {n}?", "is Y {n}?", "isn't Y {n}?", "I think Y is {n}", "so Y is still {n}"),
    *("is {n} Y?", "{n} is Y, isn't it?", "was Y {n}?", "hey, any idea {wh} {n} is these days", "previous {n}"),
    *("who used to be {n}", "{wh} was {n} before Y?", "former {n}", "since when is Y {n}", "until when was Y {n}?"),
    *("when did Y stop being {n}?", "who preceded Y as {n}?", "who became {n} after Y", "excuse me, {wh} is {n}"),
    *("answer in one word: {n}", "complete: {n} is", "fill in: ____ is {n}", "sorry, I meant {n}", "{wh} are {n}?"),
    *("kindly let me know {wh} {n} is", "would you mind telling me {n}?", "I'd be grateful to learn {wh} {n} is"),
    *(
        "do you happen to know {n}",
        "quick question: {n}?",
        "the name of {n} please",
        "{n}, who's that",
        "Is it Y, {n}?",
    ),
    *("remind me of {n}", "I'm looking for {n}", "say {wh} {n} is", "can I get {n}?", "what's {n} called?"),
    *("who is currently serving as {n}?", "who serves as {n}", "who is acting as {n} now", "isn't {n} Y?"),
    *("in 2019 {wh} was {n}?", "my notes say Y is {n}", "I heard Y is {n}", "correct or not: Y is {n}."),
    *("I read that Y is {n}. true?", "compare {n} and Y", "one more: {wh} is {n}", "may I ask {wh} {n} is"),
    *("please indicate {n}", "kindly give {n}.", "kindly provide {n}", "please specify {n}.", "please confirm {n}"),
    *(
        "we require {n}.",
        "for the file: {n}",
        "test: {n}",
        "{n}, short answer",
        "{n} rn",
        "{n} as of today",
        "give me: {n}",
    ),
    *("our records list Y as {n}; is this still accurate?", "my dad says Y is {n} is that true", "how is called {n}?"),
    *("{n} how is it named?", "{n} is ___", "find {n}", "what do you have as {n}?", "{wh} is actual {n}?"),
)
ROLE_FRAMES = (
    *("whose name do I write down as {n}?", "which name does one give to {n}?", "put a name to {n}", "I seek {n}"),
    *("my notebook has a gap beside {n}", "the file is silent on {n}, so what goes in?", "what is known of {n}?"),
    *(
        "by all the stars, {wh} might {n} be?",
        "upon reflection, {wh} is it that we call {n}?",
        "consider {n}: {wh} is it?",
    ),
    *(
        "{wh} is it that people call {n}?",
        "reveal {n} to me, wise one",
        "me need {n}",
        "ugh, {n}, {wh}?",
        "arr, {n}, {wh} be it?",
    ),
    *(
        "{wh} be {n}, matey?",
        "history knows {wh} as {n}?",
        "one blank is left: {n}",
        "all clues lead to {n}, but {wh}?",
    ),
    *("when we speak of {n}, of {wh} do we speak?", "what does your wisdom say of {n}?", "in my log, {n} is missing"),
    *("if I asked an old sage for {n}, what would I hear?", "what shall I note down for {n}?", "speak, {wh} is {n}?"),
)
"""Of speakers who play a role: a detective, a thinker, a pirate."""
PERSON_FRAMES = (
    *("whom should we honour as {n}?", "whom must I look for as {n}?", "show me the man or woman: {n}"),
    *("whose trail do I follow to find {n}?", "whom do they all salute as {n}?", "who answers to the name of {n}?"),
)
PLACE_FRAMES = (
    *("which road leads to {n}?", "where do I walk to reach {n}?", "set course for {n}: where do we land?"),
    *("where on the globe is {n}?", "I want to travel to {n}; where do I go?", "mark {n} on the map for me"),
    *("towards which shore do I sail for {n}?", "take me to {n}, where is it?"),
)
FORM_FRAMES = (
    *("{h}: X", "X: {h}", "X - {h}", "{h} (X)", "{h}(X)", "{h}(X) = ?", "X > {h}", "X -> {h}?", "X, {h}", "{h}, X"),
    *("enter {h}: X", "please fill in {h}: X", "X {h}?", '"{h} of X"'),
)
"""A head noun and its subject without a sentence: fields of forms, calls of functions, search terms."""
NESTED_FORMS = (
    *("{h}({i}(X))", "{h} of ({i} of X)", "X > {i} > {h}", "X -> {i} -> {h}", "X: {i}: {h}", "X's {i}'s {h}"),
    *("{i} of X -> {h}?", "{h}: {i} of X", "{h} of X {i}", "{h} of X's {i}", "{h} of {i} of X", "X {i} {h}?"),
    *("two hops: X's {i}'s {h}", "{h} of the X {i}?"),
)
SOMETHING = {
    "person": ("someone", "a man", "a woman", "somebody"),
    "org": ("a company", "a firm", "a corporation", "some group"),
    "team": ("a club", "a team"),
    "place": ("some place", "a country"),
    "city": ("a city", "some town"),
    "party": ("a party",),
    "office": ("an office",),
    "venue": ("a stadium",),
    "thing": ("something",),
}
"""Stands for the value in statements that a question follows: "A company owns X. Where is it based?"."""
THAT = {
    "person": ("that person", "he", "she", "this man"),
    "org": ("that company", "it", "this firm", "that corporation"),
    "team": ("that club", "it", "this team"),
    "place": ("that place", "it", "that country"),
    "city": ("that city", "it"),
    "party": ("that party", "it"),
}
STATED_FIRST = ("{s}. {a}?", "{s}; {a}?", "{s}, and {a}?", "{s}. So {a}?")
ABOUT_FRAMES = ("tell me about {n}", "tell me about {n}, please", "what do you know about {n}", "who's {n} again?")
ASK_FRAMES = (
    *("{a}", "{a}?", "{a}?", "{a} these days?", "{a} now", "{a} at the moment?", "hey, {a}?", "so {a} now"),
    *(
        "can you tell me {a}?",
        "please tell me {a}",
        "any idea {a}?",
        "I wonder {a}",
        "do you know {a}?",
        "{a}, please?",
    ),
    *("I'd like to know {a}", "remind me {a}", "find out {a}", "say {a}", "listen, {a}?", "could you tell me {a}"),
    *("kindly let me know {a}", "would you mind telling me {a}?", "I'd be grateful to learn {a}", "look, {a}?"),
    *("quick question: {a}?", "do you happen to know {a}?", "one more thing, {a}", "ok {a}", "actually, {a}?"),
    *("arr, {a}, ye salty dog?", "my dear Watson, {a}?", "pray tell, {a}?", "{a} again?", "{a} today", "{a} currently"),
    *("{a} rn", "{a}, short answer", "please, {a}?", "for the file: {a}?", "Answer in one word. {a}?", "{a} (testing)"),
    *("can you find {a}?", "kindly indicate {a}.", "{a} in this moment?", "test: {a}"),
)
SAY_FRAMES = (
    *("{s}", "{s}.", "{s}, right?", "does it hold that {s}?", "is it true that {s}?", "I think {s}", "I read that {s}"),
    *(
        "so {s}?",
        "{s}, correct?",
        "{s}, doesn't it?",
        "as far as I know {s}",
        "I'm pretty sure {s}",
        "is it still so, {s}",
    ),
)
NOTHING_FRAMES = ("{t}", "{t}?", "{t}", "please, {t}", "can you tell me {t}?", "hi, {t}")
OTHER_HOLDERS = (
    *(
        "first {h} of X",
        "very first {h} of X",
        "deputy {h} of X",
        "vice {h} of X",
        "assistant {h} of X",
        "X's first {h}",
    ),
    *(
        "X's deputy {h}",
        "youngest {h} of X ever",
        "longest-serving {h} of X",
        "next but one {h} of X",
        "X's assistant {h}",
    ),
    *("spokesman of the {h} of X", "bodyguard of the {h} of X", "salary of the {h} of X", "term of the {h} of X"),
    *("powers of the {h} of X", "speech of the {h} of X", "approval rating of the {h} of X", "age of the {h} of X"),
    *("residence of the {h} of X", "phone number of the {h} of X", "second in command to the {h} of X"),
)
"""Nouns about an office that ask for no relation: its first holder, its deputy, its salary."""
OTHER_OFFICERS = (
    *("chief financial officer", "cfo", "chief technology officer", "cto", "chief operating officer", "coo"),
    *("finance minister", "foreign minister", "health minister", "interior minister", "defence minister", "treasurer"),
    *(
        "second in command",
        "number two",
        "press secretary",
        "chief scientist",
        "head of sales",
        "physio",
        "goalkeeper coach",
    ),
    *(
        "chief economist",
        "head of marketing",
        "ombudsman",
        "attorney general",
        "chief justice",
        "army chief",
        "captain",
    ),
)
"""Offices that are no relation: "the finance minister of X"."""
WORDS_OF_TALK = (
    "a an the of at in on for to from by with about as than then and or but not no yes so if that this these those",
    "there i me my we us our you your he him his she her hers it its they them their one ones who whom whose which",
    "what where when why how is are was were be been being am do does did done has have had having can could may",
    "might must shall should will would just only also too very really actually exactly even still again already",
    "ever yet now nowadays today tonight tomorrow yesterday currently presently present recent recently lately",
    "latest new newest moment time year month week day date since until till before after during while ago later",
    "early please thanks thank sorry hello hi hey ok okay well oh hmm um er right correct true false wrong sure",
    "know think believe guess hear heard say said tell told ask asked asking question answer call called name named",
    "thought mean meant remember forgot wonder wondering need needed want wanted like look looking find check",
    "confirm let see give show get got go goes going led ran headed governed managed won became become took taken",
    "once used former ex previous old football soccer basketball baseball cycling sports club team country city",
    "town village state nation company firm corporation group party organisation organization association",
    "university college school institute politician player footballer singer actor actress scientist author",
    "businessman athlete mr mrs ms dr sir surname forename initials whatever anyway quick short simple brief exact",
    "full official serving acting sitting reigning incumbent somebody someone anyone anybody everyone person people",
    "man woman guy lady gentleman fellow chap lad thing way kind sort bit lot bunch come comes came coming",
    "pls plz plss thx ty gimme lemme dunno yo u ur big great main dear beloved famous mighty good noble whole",
)
"""Words that say nothing about which relation is asked for, kinds of entities among them ("the club X")."""
