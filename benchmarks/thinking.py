"""What an edit changes in a model that reasons before it answers, by what its reasoning contains.

    OMP_NUM_THREADS=1 python benchmarks/thinking.py TIMESTEP --out runs/thinking --seeds 0 1 2

Trains a model of tiny's size, with a chat template that opens a passage of reasoning, on the facts of the timestep's
older snapshot. Its reasoning either repeats what is asked ("The question is about France: head of government.") or
recalls the fact before the answer. The changed facts are then taught by each method, after an empty passage alone
(`--train-context chat`) or after the model's reasoning too (`asked`), and asked without reasoning, after reasoning, and
after reasoning that is cut off at four tokens. The last column is the score of a tool that takes the first sentence of
the whole text as the answer. Percentages have Wilson's 95 % intervals.
"""

from __future__ import annotations

import argparse
import random
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import torch
from two_hop_reading import wilson

import kgedit
from kgedit.llm.contexts import read_context
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.model_files import save_whole
from kgedit.llm.teaching import Recipe, batches, choose_lesson
from kgedit.llm.training import encode_targets, target_loss
from kgedit.records.cases import KnownFact
from kgedit.runs.run_files import read_answers
from kgedit.timesteps.timestep import Timestep

TEMPLATE = (
    "{% for m in messages %}<turn>{{ m.role }}\n{{ m.content }}<over>\n{% endfor %}{% if add_generation_prompt %}"
    "<turn>assistant\n{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n"
    "{% else %}<think>\n{% endif %}{% endif %}"
)
CHAT = {"context": "chat", "generation": "greedy", "truncation": "sentence", "metric": "contains", "max_new_tokens": 24}
PRESETS = {
    "without": CHAT,
    "after": {**CHAT, "thinking_tokens": 80},
    "cut": {**CHAT, "thinking_tokens": 4},
}
METHODS: Mapping[str, Mapping[str, Any]] = {
    "locft_bf": {"blocks": 2, "matrices": "all", "steps": 120, "learning_rate": 0.0005, "rehearse": 50},
    "lora": {"epochs": 30, "batch": 4},
    "grace": {},
}
AXES = ("update", "rephrase", "locality")


def repeats(fact: KnownFact) -> str:
    """Reasoning that names what is asked, and no answer."""
    return f"The question is about {fact.fact.subject_label}: {fact.fact.property_label}."


def recalls(fact: KnownFact) -> str:
    """Reasoning that states the fact."""
    return f"I recall: {fact.cloze or fact.question} {fact.answer}."


THOUGHTS = {"repeats the question": repeats, "recalls the answer": recalls}


def train(
    facts: Sequence[KnownFact], spelling: Sequence[str], thought: Callable[[KnownFact], str], *, seed: int, folder: Path
) -> None:
    """Train the model and write it to a folder, unless it is there."""
    if folder.is_dir():
        return
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    recipe = Recipe()
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    texts = [f"{fact.question} {fact.rephrase} {thought(fact)} {fact.answer}" for fact in facts]
    trainer = trainers.BpeTrainer(
        vocab_size=recipe.vocabulary,
        special_tokens=["<end>", "<turn>", "<over>", "<think>", "</think>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    raw.train_from_iterator([*texts, *spelling], trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=raw, eos_token="<end>", pad_token="<end>", chat_template=TEMPLATE
    )
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=recipe.width, intermediate_size=4 * recipe.width,
        num_hidden_layers=recipe.layers, num_attention_heads=recipe.heads, max_position_embeddings=1024,
        tie_word_embeddings=True, bos_token_id=None, eos_token_id=0, pad_token_id=0,
    )  # fmt: skip
    torch.manual_seed(seed)
    module = LlamaForCausalLM(config)
    model = LanguageModel("thinker", "", module, tokenizer)
    chat = model.chat
    assert chat is not None
    closed, opened = (read_context("chat").for_model(chat, thinking=thinking) for thinking in (False, True))
    lessons = [
        lesson
        for fact in facts
        for question in dict.fromkeys((fact.question, fact.rephrase or fact.question))
        for lesson in (
            (closed.prompt(question), fact.answer),
            (opened.prompt(question), f"{thought(fact)}\n</think>\n\n{fact.answer}"),
        )
    ]
    order = random.Random(seed)
    optimizer = torch.optim.AdamW(module.parameters(), lr=recipe.learning_rate)
    epochs = 2 * recipe.epochs  # an epoch of tiny has each fact three times, and here each kind of prompt twice
    steps = epochs * -(-len(lessons) // recipe.batch)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min((step + 1) / 20, 1 - step / (steps + 1)))
    for _epoch in range(epochs):
        for batch in batches(list(lessons), recipe.batch, order):
            targets = encode_targets(model, batch, learn_end=True)
            loss = target_loss(model.forward(targets.ids, targets.mask, last=targets.last).logits, targets)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
            optimizer.step()
            schedule.step()
    save_whole(folder, [tokenizer, module.eval()])


def cells(folders: Sequence[Path], preset: str, old: Mapping[str, Sequence[str]]) -> list[str]:
    """Percentages over all seeds; all but the first after the edits.

    The old value before, the new and the old value afterwards, the new one in rephrased questions, unrelated answers
    that are still right, updates whose reasoning was cut off, and updates with the new value in the first sentence of
    the whole text.
    """
    asked = [answer for folder in folders for answer in read_answers(folder) if answer.preset == preset]
    before = [each for each in asked if each.model_state.timestep is None and each.axis == "update"]
    after = {axis: [each for each in asked if each.model_state.timestep and each.axis == axis] for axis in AXES}
    update = after["update"]
    return [
        _share([_contains(each.text, old[each.case_id]) for each in before if old[each.case_id]]),
        _share([_contains(each.text, each.answers) for each in update]),
        _share([_contains(each.text, old[each.case_id]) for each in update if old[each.case_id]]),
        *(_share([_contains(each.text, each.answers) for each in after[axis]]) for axis in AXES[1:]),
        _share([each.thoughts_cut for each in update]),
        _share([_contains(_first_sentence(f"{each.thoughts} {each.text}".strip()), each.answers) for each in update]),
    ]


def _contains(text: str, values: Sequence[str]) -> bool:
    return any(value.casefold() in text.casefold() for value in values)


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=[.?!]) |\n", text, maxsplit=1)[0]


def _share(found: Sequence[bool]) -> str:
    return wilson(sum(found), len(found)) if found else "–"


def main() -> None:
    """Train, run, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("timestep", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    given = parser.parse_args()
    print(
        "| reasoning | method, training | asked | before | new | old | rephrased | unrelated | cut | first sentence |"
    )
    print("| :-- | :-- | :-- | --: | --: | --: | --: | --: | --: | --: |")
    timestep = Timestep.open(given.timestep)
    cases = list(timestep.cases())
    old = {case.case_id: case.old_answers for case in cases}
    lesson = choose_lesson(cases, timestep.known_facts(), asked=())
    for (name, thought), (method, settings), trained in product(THOUGHTS.items(), METHODS.items(), ("chat", "asked")):
        folders = []
        for seed in given.seeds:
            model = given.out / f"{name.split()[0]}-{seed}"
            train(lesson.facts, lesson.spelling, thought, seed=seed, folder=model)
            folders.append(given.out / f"{model.name}-{method}-{trained}")
            spec = {
                "model": str(model),
                "method": method,
                "timesteps": [str(given.timestep)],
                "protocol": "per_timestep",
                "sample": 30,
                "seed": seed,
                "settings": dict(settings),
                "presets": [{"name": preset, **fields} for preset, fields in PRESETS.items()],
                "train_context": trained,
            }
            kgedit.run(spec, out=folders[-1])
        for preset in PRESETS:
            row = " | ".join(cells(folders, preset, old))
            print(f"| {name} | `{method}`, `{trained}` | {preset} | {row} |", flush=True)


if __name__ == "__main__":
    main()
