"""Configuration: what is chosen by name, and what each mistake is told."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
from pydantic import Field, ValidationError

from reflect_rl.algorithms import ppo, reinforce
from reflect_rl.config import AlgorithmConfig, EnvironmentConfig, Frozen, narrow, parse, read_toml
from reflect_rl.curricula import UniformConfig
from reflect_rl.envs import corridor, dangerous_taxi
from reflect_rl.errors import ConfigError, UnknownNameError


class Training(Frozen):
    """A part."""

    steps: int = Field(10, ge=1)
    """Steps."""
    algorithm: AlgorithmConfig = Field(default_factory=AlgorithmConfig)
    """Algorithm."""


class Whole(Frozen):
    """A run."""

    seeds: tuple[int, ...] = Field((0,), min_length=1)
    """Seeds."""
    environment: EnvironmentConfig = Field(default_factory=EnvironmentConfig)
    """Game."""
    training: Training = Field(default_factory=Training)
    """Training."""


def test_without_values_the_defaults_are_those_of_the_default_files():
    config = parse(Whole, {})
    assert config.environment == dangerous_taxi.DangerousTaxiConfig()
    assert config.training.algorithm == ppo.PPOConfig()
    assert (config.training.steps, config.seeds) == (10, (0,))


def test_settings_of_online_training_have_whole_parts_however_they_are_made():
    from reflect_rl.training.config import RLFTConfig

    parsed = parse(RLFTConfig, {})
    for made in (RLFTConfig(), RLFTConfig(total_turns=5), RLFTConfig(algorithm=ppo.PPOConfig())):
        assert made.algorithm == parsed.algorithm == ppo.PPOConfig()
        assert made.curriculum == parsed.curriculum == UniformConfig()


def test_a_name_narrows_a_part_to_the_config_of_its_file_at_any_depth():
    config = parse(
        Whole,
        {"environment": {"name": "corridor", "length": 7}, "training": {"algorithm": {"name": "reinforce"}}},
    )
    assert config.environment == corridor.CorridorConfig(length=7)
    assert isinstance(config.training.algorithm, reinforce.ReinforceConfig)


def test_narrowing_leaves_the_model_itself_alone():
    narrowed = narrow(Whole, {"environment": {"name": "corridor"}})
    assert issubclass(narrowed, Whole)
    assert narrowed.__name__ == "Whole"
    assert Whole.model_fields["environment"].annotation is EnvironmentConfig


def test_dumped_values_parse_to_the_same_configuration():
    config = parse(Whole, {"environment": {"name": "corridor", "length": 7}, "seeds": [1, 2]})
    dumped = config.model_dump(mode="json")
    assert dumped["environment"]["length"] == 7
    again = parse(Whole, dumped)
    assert again.environment == config.environment
    assert again.model_dump() == config.model_dump()


def test_a_class_of_ones_own_is_named_by_its_module(monkeypatch):
    module = ModuleType("own.game")

    class Config(EnvironmentConfig):
        """Own."""

        size: int = 3
        """Size."""

    class Game:
        """Carries its settings."""

    Game.Config = Config  # type: ignore[attr-defined]
    module.Game = Game  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "own", ModuleType("own"))
    monkeypatch.setitem(sys.modules, "own.game", module)
    values = {"name": "own.game:Game", "size": 5}
    assert parse(Whole, {"environment": values}).environment == Config(**values)


def test_configurations_are_immutable():
    with pytest.raises(ValidationError, match="frozen"):
        parse(Whole, {}).seeds = (1,)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("values", "pattern"),
    [
        ({"sedes": [1]}, r"unknown key 'sedes' \(value \[1\]\)\. Did you mean 'seeds'\?"),
        ({"training": {"stepps": 1}}, r"unknown key 'training\.stepps' .* Did you mean 'steps'\?"),
        # The keys of the chosen file count, not those of another one.
        ({"training": {"algorithm": {"clip_ration": 0.1}}}, r"'training\.algorithm\.clip_ration' .* 'clip_ratio'\?"),
        ({"training": {"algorithm": {"name": "reinforce", "clip_ratio": 0.1}}}, r"'training\.algorithm\.clip_ratio'"),
        # The name that the key had before is near enough to the one that it has now.
        (
            {"training": {"algorithm": {"name": "grpo", "scale_by_deviation": False}}},
            r"'training\.algorithm\.scale_by_deviation' .* Did you mean 'scale_by_std'\?",
        ),
        ({"zzzz": 1}, r"unknown key 'zzzz' .* Known: environment, seeds, training\."),
        ({"training": {"steps": "many"}}, r"training\.steps: 'many' is no whole number\."),
        ({"training": {"steps": 0}}, r"training\.steps: 0 is too small\. The lowest value is 1\."),
        (
            {"training": {"algorithm": {"clip_ratio": 1.5}}},
            r"training\.algorithm\.clip_ratio: 1\.5 is too large\. It must be below 1\.",
        ),
        ({"seeds": []}, r"seeds: the list is empty\. Name at least 1\."),
        ({"seeds": [0, "x"]}, r"seeds\.1: .*'x'"),
        ({"training": 5}, r"training: expected a table \[training\], got 5"),
        (
            {"training": {"algorithm": "ppo"}},
            r"training\.algorithm: expected a table \[training\.algorithm\], got 'ppo'",
        ),
        ({"environment": {"name": 3}}, r"environment\.name: expected a text, got 3"),
    ],
)
def test_mistakes_name_the_key_the_value_and_the_remedy(values, pattern):
    with pytest.raises(ConfigError, match=pattern):
        parse(Whole, values)


def test_every_mistake_is_told_at_once():
    with pytest.raises(ConfigError) as caught:
        parse(Whole, {"sedes": 1, "training": {"steps": 0}})
    lines = str(caught.value).splitlines()
    assert len(lines) == 2
    assert {line.split()[0] for line in lines} == {"unknown", "training.steps:"}


def test_a_learning_rate_that_is_not_a_number_is_refused():
    from reflect_rl.training.online import RLFTConfig

    for value in (float("nan"), 0.0, -1.0):
        with pytest.raises(ConfigError, match="learning_rate"):
            parse(RLFTConfig, {"learning_rate": value})


def test_an_unknown_name_gets_the_nearest_one():
    with pytest.raises(UnknownNameError, match=r"no environment named 'coridor'\. Did you mean 'corridor'\?"):
        parse(Whole, {"environment": {"name": "coridor"}})
    with pytest.raises(UnknownNameError, match=r"no algorithm named 'pp0'\. Did you mean 'ppo'\?"):
        parse(Whole, {"training": {"algorithm": {"name": "pp0"}}})


def test_a_class_without_settings_is_refused():
    with pytest.raises(ConfigError, match=r"environment\.name: 'json\.decoder:JSONDecoder' is no class with"):
        parse(Whole, {"environment": {"name": "json.decoder:JSONDecoder"}})


def test_toml_files(tmp_path):
    good, bad, binary = (tmp_path / name for name in ("good.toml", "bad.toml", "binary.toml"))
    good.write_text('seeds = [1]\n[environment]\nname = "corridor"\n')
    assert read_toml(good) == {"seeds": [1], "environment": {"name": "corridor"}}
    bad.write_text("seeds = \n")
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match=r"bad\.toml: not valid TOML"):
        read_toml(bad)
    with pytest.raises(ConfigError, match=r"cannot read configuration file .*binary\.toml"):
        read_toml(binary)
    with pytest.raises(ConfigError, match=r"no configuration file .*absent\.toml"):
        read_toml(tmp_path / "absent.toml")
    with pytest.raises(ConfigError, match="cannot read"):
        read_toml(tmp_path)
