"""A random BERT with a few thousand weights and a tokenizer that adds special tokens."""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

WORDS = (
    *("[PAD]", "[CLS]", "[SEP]", "[UNK]"),
    *("the", "mayor", "of", "mora", "is", "asta", "wik", "axel", "hed", "yes", "no", "who", "was", "it"),
)


def save_small_bert(folder: Path) -> Path:
    """Write two blocks of 16 dimensions and a word tokenizer that adds [CLS] and [SEP]."""
    raw = Tokenizer(models.WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token="[UNK]"))
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    raw.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    PreTrainedTokenizerFast(
        tokenizer_object=raw, pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]", unk_token="[UNK]"
    ).save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=24,
        max_position_embeddings=40,
        initializer_range=0.5,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        BertModel(config).save_pretrained(folder)
    return folder
