"""Each mistake is one message with the thing, the value and the remedy, exit code 2, and nothing is written."""

import json

import pytest
import torch
from tiny_run import SMOKE

FILES = {
    "unknown key": (
        "[rlft]\nlearning_rte = 1",
        "unknown key 'rlft.learning_rte' (value 1). Did you mean 'learning_rate'?",
    ),
    "unknown table": ("[rlftt]", "unknown key 'rlftt' (value {}). Did you mean 'rlft'?"),
    "no TOML": ("hello world", "not valid TOML: Expected '=' after a key"),
    "wrong type": ('[rlft]\nlearning_rate = "x"', "rlft.learning_rate: 'x' is no number."),
    "out of range": ("workers = 0", "workers: 0 is too small. The lowest value is 1."),
    "two mistakes": ("workers = 0\n[rlft]\nnum_envs = 0", "rlft.num_envs: 0 is too small. The lowest value is 1."),
    "no truth value": (
        'trackers = []\n[model]\ngradient_checkpointing = "perhaps"',
        "'perhaps' is neither true nor false.",
    ),
    "truth value as a number": ("workers = true", "workers: True is a truth value. Write a number."),
    "truth value in a list": ("seeds = [0, true]", "is a truth value. Write a number."),
    "no end": ("[rlft]\ntemperature = inf", "rlft.temperature: inf is not finite. Write a number."),
    "half a worker": ("workers = 1.5", "workers: 1.5 is no whole number."),
    "number as text": ("start_from = 3", "start_from: 3 is no text. Put it in quotes."),
    "text as list": ("seeds = 3", "seeds: 3 is no list. Put it in brackets."),
    "no place": ('start_from = ""', "start_from: the path is empty. Name a file or folder"),
    "hopeless rate": ("[rlft]\nlearning_rate = 50", "rlft.learning_rate: 50 is too large. The highest value is 1."),
    "hopeless rate of SFT": ("[sft.base]\nlearning_rate = 1e30", "sft.base.learning_rate: 1e+30 is too large."),
    "layers of adapters": (
        '[model.lora]\ntarget_modules = "(q"',
        "model.lora.target_modules: '(q' is no regular expression",
    ),
    "deep": (f"a = {'[' * 5000}{']' * 5000}", "its values are nested too deeply"),
    "no table": ("rlft = 3", "rlft: expected a table [rlft], got 3."),
    "name no text": ("[environment]\nname = 3", "environment.name: expected a text, got 3."),
    "environment": ('[environment]\nname = "dangerous_taxii"', "Did you mean 'dangerous_taxi'?"),
    "algorithm": ('[rlft.algorithm]\nname = "pp0"', "no algorithm named 'pp0'. Did you mean 'ppo'?"),
    "curriculum": ('[rlft.curriculum]\nname = "stage"', "no curriculum named 'stage'. Did you mean 'stages'?"),
    "method": ('methods = ["reflectrl"]', "methods: no method named 'reflectrl'. Did you mean 'reflect_rl'?"),
    "no game": ('[environment]\nname = "os.path:join"', "environment.name: 'os.path:join' is no class with a `Config`"),
    "no module": (
        '[environment]\nname = "my.game:Game"',
        "cannot import 'my.game:Game' for environments: No module named 'my'",
    ),
    # A module of the standard library that is for Windows only.
    "broken module": (
        '[environment]\nname = "asyncio.windows_events:Game"',
        "environment.name: importing 'asyncio.windows_events:Game' failed: ImportError: win32 only",
    ),
    "module alone": (
        '[environment]\nname = "my.game"',
        "'my.game' is no environment. A part outside this installation is named package.module:Name.",
    ),
    "seed twice": ("seeds = [0, 0]", "seeds: an entry is repeated in [0, 0]"),
    "no seed": ("seeds = []", "seeds: the list is empty. Name at least 1."),
    "model shape": (
        "[model.embedded]\nheads = 5",
        "model.embedded: hidden_size 64 is not a multiple of 2 x heads = 10.",
    ),
    "environment mode": (
        '[environment]\nmodes = ["fulll"]',
        "environment.modes.0: 'fulll' is not known. Did you mean 'full'?",
    ),
    "data mode": ('[data]\nmodes = ["fulll"]', "data.modes: dangerous_taxi has no mode 'fulll'. Did you mean 'full'?"),
    "evaluation mode": ('[evaluation]\nmodes = ["fulll"]', "evaluation.modes: dangerous_taxi has no mode 'fulll'."),
    "curriculum mode": (
        '[rlft.curriculum]\nmodes = ["near"]',
        "rlft.curriculum.modes: dangerous_taxi has no mode 'near'",
    ),
    "mode twice": ('[evaluation]\nmodes = ["full", "full"]', "evaluation.modes: an entry is repeated in full, full."),
    # 300 starts less 60 of the test and 40 of the validation split
    "starts": (
        "[data]\ndemonstration_starts = [201]",
        "201 starts are asked for, the training split of dangerous_taxi has 200",
    ),
    "starts to read": (
        "[data]\nreading_starts = 201",
        "data.reading_starts: 201 starts are asked for, the training split of dangerous_taxi has 200",
    ),
    "short rows of random play": (
        '[data]\nreading = "short_rows"\nreading_starts = 5',
        "data.reading_starts: a random player plays these 5 tasks, and short rows need answers: dangerous_taxi "
        "cannot tell in hindsight for which tasks a move was right. Set data.reading_starts = 0",
    ),
    "copies without labels": (
        '[data]\nrenumbered_copies = 1\n[prompt]\nscoring = "sum"',
        "data.renumbered_copies: copies have other labels, and there are none with prompt.scoring = 'sum'.",
    ),
    "no starts": (
        "[data]\ndemonstration_starts = [0]",
        "data.demonstration_starts: 0 is too small. The lowest value is 1.",
    ),
    "horizon": ("[evaluation]\nhorizons = [0]", "evaluation.horizons: 0 is too small."),
    "shares": (
        '[rlft.curriculum]\nname = "stages"\nshares = [1, 2, 3]',
        "rlft.curriculum.shares has 3 numbers for the modes pickup, full.",
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_a_mistake_in_the_file(call, toml, tmp_path, name):
    text, message = FILES[name]
    run = tmp_path / "run"
    assert message in call("run", toml(text), "--output-dir", run).mistake
    assert not run.exists()


FLAGS = {
    "--rlft.learning-rte 1": "unknown flag --rlft.learning-rte (value '1'). Did you mean '--rlft.learning-rate'?",
    "--endpoint.api-key sk-1": "unknown flag --endpoint.api-key. A key belongs into an environment variable only",
    "--help-me": "unknown flag --help-me. --help-all lists all flags.",
    "--rlft.learning-rate -1": "rlft.learning_rate: -1 is too small. It must be above 0.",
    "--output-dir=": "output_dir: the path is empty. Name a file or folder, or leave the setting out.",
    "--rlft.temperature inf": "rlft.temperature: inf is not finite. Write a number.",
    "--workers x": "workers: 'x' is no whole number.",
    "--workers 1 2": "--workers takes one value, got 2: 1, 2.",
    "--workers": "--workers needs a value: --workers VALUE.",
    "--rlft 3": "--rlft is a group of settings, such as --rlft.total-turns; --help-all lists them all.",
    "-x 3": "no flag '-x'. Flags have two dashes",
    "--seeds 0 --seeds 1": "--seeds is given twice. Give all its values after one --seeds.",
    "--methods sfft": "methods: no method named 'sfft'. Did you mean 'sft'?\n",
    "--rlft.algorithm.name reinforc": "no algorithm named 'reinforc'. Did you mean 'reinforce'?",
    "--rlft.algorithm.name reinforce --rlft.algorithm.clip-ratio 0.1": "unknown flag --rlft.algorithm.clip-ratio",
    "--environment.name corridor --environment.test-starts 3": "unknown flag --environment.test-starts",
    "--player random": "unknown flag --player",
    "--seeds=0 1 2": "--seeds=0 takes no further word, got '2'. Write several values as --seeds A B",
    "--model.device xpu": "no device 'xpu'. Known: auto, cpu, cuda, cuda:N, mps.",
    "--rlft.batch-size 3": "unknown flag --rlft.batch-size (value '3'). [rlft] has: checkpoint-every, ",
    "--rlft.minibatch-turn 3": "Did you mean '--rlft.minibatch-turns'?",
}


@pytest.mark.parametrize("flags", FLAGS)
def test_a_mistake_in_a_flag(call, toml, flags):
    assert FLAGS[flags] in call("run", toml(""), *flags.split()).mistake


def test_places_that_hold_no_configuration(call, tmp_path):
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    missing, folder = tmp_path / "missing.toml", tmp_path / "folder"
    folder.mkdir()
    assert f"there is no configuration file '{missing}'" in call("run", missing).mistake
    for verb in ("run", "eval", "play"):
        assert "there is no configuration file or run folder 'runs/nope'." in call(verb, "runs/nope").mistake
    assert "cannot read configuration file" in call("run", tmp_path / "binary.toml").mistake
    assert f"Is {folder} a run folder?" in call("run", folder).mistake
    (folder / "config.json").write_text('{"model_type": "gpt2", "n_embd": 16}')
    assert call("run", folder).mistake.startswith(f"error: {folder} is the folder of a model, not of a run.")
    assert "'nowhere' is no run folder yet." in call("run", "--output-dir", "nowhere").mistake
    assert "expected one configuration file, got 2: a, b." in call("run", "a", "b").mistake
    for verb in ("run", "data", "sft", "rlft", "eval"):
        assert f"reflect-rl {verb} configs/taxi/smoke.toml" in call(verb).mistake


def test_the_file_comes_first(call, toml):
    path = toml("")
    assert (
        f"the configuration file comes before the flags: reflect-rl run {path}"
        in call("run", "--workers", "1", path).mistake
    )
    assert "comes before the flags" in call("run", path, "--workers", "1", path).mistake


def test_an_output_dir_that_cannot_be_written(call, toml, tmp_path):
    path = toml("")
    assert (
        f"cannot write the run folder {path}: File exists. Choose another"
        in call("run", path, "--output-dir", path).mistake
    )
    assert "Not a directory. Choose another" in call("run", path, "--output-dir", path / "run").mistake


@pytest.mark.parametrize(("verb", "first"), [("sft", "data"), ("rlft", "sft"), ("eval", "sft")])
def test_a_stage_without_its_predecessor_names_it_and_starts_nothing(call, toml, tmp_path, verb, first):
    answer = call(verb, toml('methods = ["reflect_rl", "sft"]'), "--output-dir", tmp_path / "run")
    names = {"sft": "data", "rlft": "sft/reflector", "eval": "rlft/reflect_rl"}
    assert f"starts-100/seed-0/{names[verb]}, which is not finished." in answer.mistake
    assert f"Run `reflect-rl {names[verb].split('/')[0]}` first." in answer.mistake
    assert answer.output == ""


def test_a_configuration_of_a_run_folder_that_is_no_table(call, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps([1]))
    assert "config.json holds no JSON object." in call("data", tmp_path).mistake


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has the device")
def test_an_absent_device_is_named_before_anything_is_written(call, tmp_path):
    message = call("run", SMOKE, "--output-dir", tmp_path / "run", "--model.device", "cuda").mistake
    assert "device 'cuda' is absent" in message
    assert not (tmp_path / "run").exists()
    # Data may be made here for a training elsewhere.
    words = ("--output-dir", tmp_path / "data", "--model.device", "cuda", "--methods", "sft", "--workers", 1)
    assert call("data", SMOKE, *words).code == 0


def test_names_and_numbers_that_are_too_long(call, toml, tmp_path):
    answer = call("run", toml('methods = ["random"]'), "--output-dir", tmp_path / ("a" * 300))
    assert "File name too long" in answer.mistake
    assert "Choose a shorter name" in answer.mistake
    assert "not valid TOML" in call("run", toml(f"seeds = [{'9' * 5000}]")).mistake
