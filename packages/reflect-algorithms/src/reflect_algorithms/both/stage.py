"""The stage that trains both players online, for the method `reflect_rl_both`.

What there is in the folder of a unit:

    rlft_both/<method>/model        the policy
    rlft_both/<method>/reflector    the reflection player
"""

from __future__ import annotations

from collections.abc import Iterator

from reflect_algorithms.both.settings import STAGE, reflector_training
from reflect_algorithms.cards import card_of_settings
from reflect_rl.evaluation.methods import Method
from reflect_rl.runs.config import RunConfig
from reflect_rl.runs.folder import Job, units
from reflect_rl.runs.model_card import card_of_rlft, model_card
from reflect_rl.runs.models import REFLECTOR, as_trained, load_of_run, numbers_of, save_whole, start_of_policy
from reflect_rl.runs.stages import Stage
from reflect_rl.types import Progress, seed_for


class BothStage(Stage):
    """A job for each method that trains both players."""

    name = STAGE
    help = "Train policy and reflection player online, from the same turns (package reflect-algorithms)."
    before = "eval"

    def concerns(self, run: RunConfig) -> bool:
        """Tell whether the run has such a method."""
        return bool(_methods(run))

    def plan(self, run: RunConfig) -> Iterator[Job]:
        """A job after the two supervised models of its method."""
        for unit in units(run):
            for method in _methods(run):
                needs = tuple(unit.sft(part) for part in method.datasets)
                yield Job(unit, self.name, method.name, unit.folder / self.name / method.name, needs)

    def do(self, job: Job, run: RunConfig, progress: Progress) -> None:
        """Train the players and save both."""
        # Imported late: a run is planned without torch.
        from reflect_algorithms.both.archer import value_turns
        from reflect_algorithms.both.reflector import OnlineReflector
        from reflect_rl.runs.train import online_trainer

        method, config, settings = run.method(job.name), reflector_training(run), run.reflector
        data = method.reflector or ""
        place, made_by = job.unit.model(data), job.unit.sft(data)
        seed = seed_for(job.unit.seed, self.name, job.name)
        writer = OnlineReflector(
            load_of_run(run.model, place, made_by, trainable=True, seed=seed_for(seed, "adapters")),
            load_of_run(run.model, place, made_by, trainable=False),
            config,
            settings.max_new_tokens,
            seed,
            numbers_of(run.env, settings),
        )
        trainer = online_trainer(job, run, writer)
        more = ""
        if config.critic == "archer":
            start = load_of_run(run.model, *start_of_policy(method, run.model, job.unit), trainable=False)
            value_turns(trainer, start, writer, config.archer)
            more = card_of_settings(run, ("rlft.reflector.archer",))
        trainer.train(progress)
        steps = f"supervised training on `{data}`, then online RL from the turns of its policy (method `{job.name}`)"
        save_whole(writer.model, job.folder / REFLECTOR, model_card(run, job.unit, "reflector", steps) + more)
        save_whole(as_trained(trainer.model, run), job.folder / "model", card_of_rlft(run, job.unit, job.name) + more)

    def refusal(self, run: RunConfig) -> str:
        """The reason why nothing is trained."""
        if self.concerns(run):
            return ""
        return "no method of the run trains both players. Add reflect_rl_both to them (docs/reference/algorithms.md)."


def _methods(run: RunConfig) -> list[Method]:
    return [method for name in run.methods if (method := run.method(name)).stage == STAGE]
