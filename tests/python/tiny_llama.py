"""A pretrained language model for tests: a random Llama of 100,000 parameters, with a tokenizer and a chat template."""

import json
import pathlib

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

TEMPLATE = ("{% for message in messages %}<s>{{ message['role'] }}\n{{ message['content'] }}</s>{% endfor %}"
            "{% if add_generation_prompt %}<s>assistant\n{% endif %}")


def save_tiny_llama(folder, seed=1, vocabulary=320, width=64):
    """A byte is a token; the tokens beyond are never used."""
    torch.manual_seed(seed)
    config = LlamaConfig(vocab_size=vocabulary, hidden_size=width, intermediate_size=2 * width, num_hidden_layers=2,
                         num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256, bos_token_id=0,
                         eos_token_id=1, pad_token_id=1, tie_word_embeddings=True)
    LlamaForCausalLM(config).save_pretrained(folder)
    save_tokenizer(folder)
    return folder


def save_tokenizer(folder, first=0):
    """first: the byte of the first token behind the special ones. Another one makes another tokenizer of the same size."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = ["<s>", "</s>", *letters[first:], *letters[:first]]
    tokenizer = Tokenizer(models.BPE(vocab={word: index for index, word in enumerate(words)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="</s>",
                                   chat_template=TEMPLATE, model_input_names=["input_ids", "attention_mask"])
    fast.save_pretrained(folder)


def save_chats(path, count=200):
    """Questions of one kind, whose answers can be learnt."""
    with open(path, "w", encoding="utf-8") as file:
        for number in range(count):
            chat = [{"role": "user", "content": f"What comes after {number % 50}?"},
                    {"role": "assistant", "content": f"After {number % 50} comes {number % 50 + 1}."}]
            file.write(json.dumps({"messages": chat}) + "\n")
    return pathlib.Path(path)
