"""A language model that reads the candidates of a question."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from reflect_locate.evidence import DEFAULT_WEIGHTS
from reflect_locate.ranking import find
from reflect_locate.reader import Reader, load_reader
from reflect_locate.reader_settings import MOST_WEIGHTS, ReaderSettings, is_small
from reflect_locate.repositories.snapshot import Snapshot
from reflect_locate.repositories.tree import Tree
from reflect_locate.rereading import REQUEST, PassageReader, ReaderBeside, open_reader, passage, reread, told_change
from reflect_locate.small_reader import PACKAGED, SmallReader, load_small_reader
from reflect_rl.errors import ModelError, UserError
from reflect_rl.store import read_json, write_json
from tiny_player import FILES, save_tiny_player

INDEX_WEIGHTS = sum(getattr(DEFAULT_WEIGHTS, kind) for kind in ("coverage", "match", "path", "defined", "stem"))
QUESTION = "Where are rate limits parsed?"


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    player = save_tiny_player(tmp_path_factory.mktemp("reader") / "tiny")
    return load_reader(str(player / "policy"), "float32")


def tree(files: dict[str, str] = FILES) -> Tree:
    return Tree(Snapshot("kettle", files))


def test_a_likelihood_is_the_mean_over_the_tokens_of_the_question(reader):
    text = "File a.py:\nimport tea"
    model = reader.model
    prompt = f"{text}\n\n{REQUEST}"
    head, body = model.encode_prompt(prompt), model.encode_after(prompt, QUESTION)
    with torch.inference_mode():
        logits = model.model(input_ids=torch.tensor([[*head, *body]])).logits[0].double()
    chances = [float(logits[len(head) + k - 1].log_softmax(-1)[token]) for k, token in enumerate(body)]
    assert reader.likelihoods(QUESTION, [text]) == [pytest.approx(sum(chances) / len(chances), abs=1e-4)]


class Fixed(PassageReader):
    """Finds one file likely and every other one less, by a given number of nats."""

    def __init__(self, path: str, nats: float, settings: ReaderSettings | None = None) -> None:
        self.settings, self.path, self.nats = settings or ReaderSettings(), path, nats

    def likelihood(self, question, text):
        return -2.0 if text.startswith(f"File {self.path}:") else -2.0 - self.nats


def test_what_the_model_says_can_move_a_file_to_the_top():
    # Four files hold the same words, so that the path decides among them; the model knows better.
    files = {f"{name}.py": "# Parsing of rate limits.\n" for name in "abcd"}
    answer = find(tree(files), QUESTION)
    assert answer.files[0].path == "a.py"
    fresh = reread(Fixed("c.py", 3.0), tree(files), QUESTION, answer)
    assert [entry.path for entry in fresh.files] == ["c.py", "a.py", "b.py", "d.py"]
    assert [entry.evidence.read for entry in fresh.files] == pytest.approx([1.0, 0.25, 0.25, 0.25])
    weight, sums = ReaderSettings().weight, INDEX_WEIGHTS
    old = answer.files[0].score
    assert fresh.files[1].score == pytest.approx((old * sums + 0.25 * weight) / (sums + weight))
    assert [entry.sureness for entry in fresh.files[1:]] == ["a guess"] * 3


def test_the_reader_counts_with_its_own_weight():
    files = {"limits.py": "# Parsing of rate limits.\n", "clock.py": "# Rate of watches.\n"}
    answer = find(tree(files), QUESTION)
    assert answer.files[0].path == "limits.py"
    firsts = {}
    for weight in (0.1, 50.0):
        reader = Fixed("clock.py", 3.0, ReaderSettings(weight=weight))
        firsts[weight] = reread(reader, tree(files), QUESTION, answer).files[0].path
    assert firsts == {0.1: "limits.py", 50.0: "clock.py"}


def test_two_readers_are_averaged_by_their_share():
    settings = ReaderSettings(small_share=0.25)
    both = ReaderBeside(settings, Fixed("a.py", 2.0), Fixed("b.py", 4.0))
    assert both.likelihoods(QUESTION, ["File a.py:", "File b.py:"]) == [-3.0, -3.5]


def test_an_untrained_model_is_read_beside_the_packaged_reader(reader, tmp_path):
    reader.model.save(tmp_path)
    both = open_reader(str(tmp_path), "float32")
    assert isinstance(both, ReaderBeside)
    alone, small, text = load_reader(str(tmp_path), "float32"), open_reader(), "File a.py:\nparse()"
    share = both.settings.small_share
    parts = [reader.likelihood(QUESTION, text) for reader in (alone, small)]
    assert both.likelihood(QUESTION, text) == pytest.approx((1 - share) * parts[0] + share * parts[1])
    Reader(alone.model, ReaderSettings(small_share=0)).save(tmp_path)
    assert isinstance(open_reader(str(tmp_path), "float32"), Reader)


def test_files_that_are_not_read_keep_their_order_behind_those_that_are():
    files = {f"{name}.py": "# Parsing of rate limits.\n" for name in "abcd"}
    answer = find(tree(files), QUESTION)
    few = ReaderSettings(candidates=2)
    fresh = reread(Fixed("b.py", 3.0, few), tree(files), QUESTION, answer)
    assert [entry.path for entry in fresh.files] == ["b.py", "a.py", "c.py", "d.py"]
    assert [entry.evidence.read for entry in fresh.files] == pytest.approx([1.0, 0.25, 0.0, 0.0])
    weight, sums = ReaderSettings().weight, INDEX_WEIGHTS
    old = answer.files[0].score
    assert fresh.files[0].score == pytest.approx((old * sums + weight) / (sums + weight))


def test_equal_likelihoods_change_no_order():
    files = tree({f"{name}.py": "# Parsing of rate limits.\n" for name in "abcd"})
    answer = find(files, QUESTION)
    fresh = reread(Fixed("nothing", 1.0), files, QUESTION, answer)
    assert [entry.path for entry in fresh.files] == [entry.path for entry in answer.files]
    assert told_change(answer, fresh) == "the reader puts a.py first, as the index does."


def test_a_passage_is_short_and_holds_the_best_line():
    lines = [f"line {number}" for number in range(100)]
    lines[60] = "parse the rate limits"
    text = passage("a.txt", "\n".join(lines), {"parse": 1.0, "rate": 1.0, "limit": 1.0}, ReaderSettings())
    assert "parse the rate limits" in text
    assert len(text.split("\n")) == 1 + ReaderSettings().lines
    few = ReaderSettings(lines=4, lines_before=0, longest=100)
    assert passage("a.txt", "\n".join(lines), {"rate": 1.0, "limit": 1.0}, few).split("\n")[1:] == lines[60:64]
    assert len(passage("a.txt", "parse " * 10_000, {"parse": 1.0}, few)) == 100 + len("File a.txt:\n")


@pytest.mark.parametrize("question", ["where is it?", "xyzzy plugh", "limits"])
def test_where_there_is_nothing_to_compare_the_answer_stays(question):
    """No word that could be compared, none that stands anywhere, or one file with it."""
    files = {"limits.py": "# Parsing of rate limits.\n", "clock.py": "# Watches.\n"}
    answer = find(tree(files), question)
    same = reread(Fixed("clock.py", 3.0), tree(files), question, answer)
    assert same == answer
    assert told_change(answer, same) == f"the reader has nothing to compare, so {answer.files[0].path} stays first."


def test_an_empty_question_is_refused(reader):
    with pytest.raises(UserError, match="the question is empty"):
        reread(reader, tree(), " ", find(tree(), QUESTION))


def test_the_reader_of_this_package_ranks_anew():
    reader = open_reader()
    assert (reader.settings.candidates, reader.settings.lines, reader.settings.weight) == (5, 8, 1.5)
    files = tree({"limits.py": "# Parsing of rate limits.\n", "clock.py": "# Rate of watches.\n"})
    answer = find(files, QUESTION)
    fresh = reread(reader, files, QUESTION, answer)
    assert {entry.path for entry in fresh.files} == {entry.path for entry in answer.files}
    assert max(entry.evidence.read for entry in fresh.files) == 1.0
    # It is another model than the policy, which it was trained from.
    one, other = (load_reader(str(PACKAGED.with_name(name)), "float32") for name in ("reader", "policy"))
    assert one.model.hash() != other.model.hash()


def test_a_missing_model_is_named():
    with pytest.raises(ModelError, match="no-such-model"):
        load_reader("no-such-model", "float32")


@pytest.mark.parametrize("name", ["reader", "policy"])
def test_numpy_computes_what_torch_computes(name):
    by_torch = load_reader(str(PACKAGED.with_name(name)), "float32")
    by_numpy = load_small_reader(PACKAGED.with_name(name))
    assert by_numpy.settings == by_torch.settings
    texts = [f"File {path}:\n{text}" for path, text in FILES.items()]
    texts += ["File a.py:\n<|endoftext|> = 'ends nothing'", "File ü.py:\n# Größe, 大小\n" + "\tx = 1\n" * 80, ""]
    for question in (QUESTION, "Wo ist <|endoftext|>?", "x"):
        expected = by_torch.likelihoods(question, texts)
        assert by_numpy.likelihoods(question, texts) == pytest.approx(expected, abs=1e-4)
    assert len({round(value, 3) for value in expected}) > 1


@pytest.mark.parametrize("name", ["small", str(PACKAGED)])
def test_a_small_reader_loads_no_torch(name):
    code = (
        "import sys; from reflect_locate.rereading import open_reader; "
        f"print(open_reader({name!r}).likelihoods('Where?', ['File a.py:']), 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("False")


def test_another_number_format_is_left_to_torch():
    assert isinstance(open_reader(str(PACKAGED), "float32"), SmallReader)
    assert isinstance(open_reader(str(PACKAGED), "bfloat16"), Reader)


@pytest.mark.parametrize(
    "change",
    [
        {"model_type": "gpt2"},
        {"num_key_value_heads": 1},
        {"bos_token_id": 1},
        {"tie_word_embeddings": False},
        {"attention_bias": True},
        {"rope_parameters": {"rope_type": "linear", "rope_theta": 10000.0}},
        {"rope_parameters": None},
        {"quantization_config": {}},
    ],
)
def test_other_models_are_left_to_torch(tmp_path, change):
    shutil.copytree(PACKAGED, tmp_path / "reader")
    assert is_small(tmp_path / "reader")
    config = tmp_path / "reader" / "config.json"
    write_json(config, read_json(config, "") | change)
    assert not is_small(tmp_path / "reader")


def test_a_chat_template_or_an_adapter_is_left_to_torch(tmp_path):
    folder = tmp_path / "reader"
    shutil.copytree(PACKAGED, folder)
    for name in ("chat_template.jinja", "adapter_config.json"):
        (folder / name).write_text("{}")
        assert not is_small(folder)
        (folder / name).unlink()
    assert is_small(folder)
    tokenizer = folder / "tokenizer_config.json"
    for key in ("chat_template", "add_bos_token"):
        write_json(tokenizer, read_json(tokenizer, "") | {key: "x"})
        assert not is_small(folder)
        write_json(tokenizer, {name: value for name, value in read_json(tokenizer, "").items() if name != key})
    assert is_small(folder)
    assert not is_small(tmp_path / "absent")


@pytest.mark.parametrize(
    ("shape", "dtype", "small"),
    [((2, 2), torch.float32, True), ((2, 2), torch.bfloat16, False), ((MOST_WEIGHTS + 1,), torch.float16, False)],
)
def test_what_numpy_cannot_hold_is_left_to_torch(tmp_path, shape, dtype, small):
    folder = tmp_path / "reader"
    shutil.copytree(PACKAGED, folder)
    save_file({"model.norm.weight": torch.zeros(shape, dtype=dtype)}, folder / "model.safetensors")
    assert is_small(folder) == small


@pytest.mark.parametrize(
    ("name", "told"), [("config.json", "config.json"), ("tokenizer.json", "damaged"), ("model.safetensors", "damaged")]
)
def test_a_damaged_small_reader_is_named(tmp_path, name, told):
    folder = tmp_path / "reader"
    shutil.copytree(PACKAGED, folder)
    whole = (folder / name).read_bytes()
    (folder / name).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError) as raised:
        open_reader(str(folder))
    assert told in str(raised.value)
    assert str(folder) in str(raised.value)


def test_a_question_as_long_as_the_context_is_cut():
    reader = replace(load_small_reader(), context=32)
    assert reader.likelihood("Where are rate limits parsed? " * 20, "File a.py:\nimport tea") < 0


def test_what_exceeds_the_context_is_left_out():
    reader = load_small_reader()
    small = replace(reader, context=64)
    prompt = reader._ids(f"{'x = 1 ' * 50}\n\n{REQUEST}")
    asked = reader._ids("Where?")
    assert len(prompt) + len(asked) > 64
    logits = reader._logits([*prompt, *asked][-64:], 63 - len(asked)).astype(np.float64)
    chances = [row[token] - np.log(np.exp(row).sum()) for row, token in zip(logits, asked, strict=True)]
    assert small.likelihood("Where?", "x = 1 " * 50) == pytest.approx(np.mean(chances), abs=1e-4)
    # One word of thousands of tokens counts by its beginning.
    assert reader.likelihood("x1y" * 2000, "a") == reader.likelihood("x1y" * 4000, "a")
