"""One pretrained model, one game, the same CPU minutes: online RL of reflect-rl, and GRPO of TRL.

python examples/trl_side_by_side.py  both sides, one after the other, and the figure
python examples/trl_side_by_side.py --side trl --minutes 3 --learning-rate 4e-4 --out runs/trial
python examples/trl_side_by_side.py --draw  the figure again, from all logs below --out

The game is that of packages/reflect-rl/tests/guess.py. Each side is a process of its own and writes a line of JSON
after each update: `ours.jsonl`, `trl.jsonl`. TRL gets the same prompts, as a conversation for each episode. Its answers
are sampled from the labels of the listed actions by a `rollout_func`; keys and values are kept from turn to turn.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

import reflect_rl as rrl
from reflect_rl.agent import Agent, algorithm_settings
from reflect_rl.config import parse
from reflect_rl.data.generate import held_out_states
from reflect_rl.models.chat_template import MESSAGE
from reflect_rl.models.labels import find_labels
from reflect_rl.models.precision import choose
from reflect_rl.prompts import policy_prompt
from reflect_rl.training.config import RLFTConfig
from reflect_rl.training.online import OnlineTrainer
from reflect_rl.types import View, seed_for

sys.path.insert(0, str(Path(__file__).parents[1] / "packages" / "reflect-rl" / "tests"))

from guess import Guess

SIDES = {"ours": ("#0072B2", "reflect-rl, PPO"), "trl": ("#D55E00", "TRL, GRPO")}
TEST = Guess().tasks("full", "test")


class OutOfTimeError(Exception):
    """The CPU minutes are used up."""


class Log:
    """A line for each update; minutes are those of the processor, since training began."""

    def __init__(self, path: Path, options: argparse.Namespace) -> None:
        self.path, self.began = path, time.process_time()
        self.every, self.next_test = options.test_every, options.test_every
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"settings": vars(options) | {"out": None}}) + "\n")

    def minutes(self) -> float:
        """CPU minutes of training."""
        return (time.process_time() - self.began) / 60

    def leave_out(self, seconds: float) -> None:
        """Not count the processor time of a measurement."""
        self.began += seconds

    def add(self, turns: int, rollout: float | None, success: float | None) -> None:
        """One line.

        Args:
            turns: decisions trained on so far.
            rollout: share of the last training episodes that were won.
            success: share of the test starts won by the most likely actions, where it was measured.
        """
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        self.next_test += 0 if success is None or not turns else self.every
        row = {"minutes": round(self.minutes(), 3), "turns": turns, "rollout": rollout, "success": success}
        with self.path.open("a") as file:
            file.write(json.dumps(row | {"peak_gib": round(peak, 2)}) + "\n")
        print(row, flush=True)


def train_ours(options: argparse.Namespace, log_path: Path) -> None:
    """PPO of reflect-rl. Its measurements on the test starts do not count as training time."""
    model = rrl.load_model(options.model, lora_rank=options.rank, precision=options.precision, seed=options.seed)
    spec, folder = rrl.make_env(Guess), options.out / "run"
    agent = Agent.of(model, spec.max_actions)
    settings = {
        "algorithm": algorithm_settings("ppo"),
        "total_turns": options.turns,
        "learning_rate": options.learning_rate,
        "starts_per_update": options.episodes // options.generations,
        "episodes_per_start": options.generations,
        "minibatch_turns": 64,
        "validate_every": 0,
    }
    log = Log(log_path, options)

    def measure() -> float:
        began = time.process_time()
        won = rrl.evaluate(agent, Guess).rate
        log.leave_out(time.process_time() - began)
        return won

    def note(*_: Any) -> None:
        minutes = log.minutes()
        last = minutes >= options.minutes
        row = json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])
        tested = measure() if last or minutes >= log.next_test else None
        log.add(trainer.turns, row["rollout/success_rate"], tested)
        if last:
            raise OutOfTimeError

    # The class that `rrl.train_rl` uses; here its weights can be measured while it trains.
    trainer = OnlineTrainer(
        model,
        agent.labels,
        agent.reflector,
        spec,
        parse(RLFTConfig, settings),
        folder,
        seed_for(options.seed, "rlft", "rlft"),
        excluded=held_out_states(spec, spec.modes),
    )
    log.add(0, None, measure())
    with suppress(OutOfTimeError):
        trainer.train(note)


@dataclass
class Conversation:
    """One episode as one text: the states are the user's messages, the labels the answers."""

    game: Guess
    ids: list[int]
    begin: int
    """Tokens before the first answer."""
    answers: list[int] = field(default_factory=list)
    """1 for each later token that the model wrote, else 0."""
    turns: int = 0
    gained: float = 0.0
    won: bool = False


class Talk:
    """The game as a conversation with a model."""

    def __init__(self, language_model: Any, precision: str) -> None:
        self.half = precision != "float32"
        self.labels = find_labels(language_model, Guess.max_actions)
        self.encode, self.tokenizer = language_model.encode_prompt, language_model.tokenizer
        self.pad = language_model.pad_id
        self.between = ("\n", "")
        if language_model.chat is not None:
            marked = [{"role": role, "content": MESSAGE} for role in ("user", "assistant", "user")]
            text = self.tokenizer.apply_chat_template(marked, tokenize=False, add_generation_prompt=True)
            # Marked messages show what the template puts between an answer and the next message, and after that.
            self.between = tuple(text.split(MESSAGE)[2:])

    def _prompt(self, observation: Any) -> str:
        return policy_prompt(View(observation, tuple(range(len(observation.actions)))), self.labels.texts)

    def begin(self, task: Any) -> Conversation:
        """The first prompt of an episode."""
        game = Guess()
        ids = list(self.encode(self._prompt(game.reset(task, None))))
        return Conversation(game, ids, len(ids))

    def answer(self, talk: Conversation, action: int) -> list[int]:
        """Take an action; the tokens that are new, none after the end of the episode."""
        step = talk.game.step(action)
        talk.turns, talk.gained, talk.won = talk.turns + 1, talk.gained + step.reward, step.success
        new = [self.labels.ids[action]]
        over = step.terminated or talk.turns == Guess.max_episode_steps
        if not over:
            before, after = self.between
            text = before + self._prompt(step.observation).rstrip() + after
            new += self.tokenizer.encode(text, add_special_tokens=False)
        talk.ids += new
        talk.answers += [1] + [0] * (len(new) - 1)
        return [] if over else new

    @torch.no_grad()
    def play(self, network: Any, tasks: list[Any], *, greedy: bool) -> list[Conversation]:
        """Play all tasks at once. Each turn computes its new tokens only."""
        from transformers import DynamicCache

        talks = [self.begin(task) for task in tasks]
        live, new = list(talks), [talk.ids for talk in talks]
        seen, cache = torch.zeros(len(live), 0, dtype=torch.long), DynamicCache()
        choices = torch.tensor(self.labels.ids)
        while live:
            width = max(map(len, new))
            ids = torch.tensor([[self.pad] * (width - len(row)) + row for row in new])
            mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in new])
            seen = torch.cat([seen, mask], 1)
            places = (seen.cumsum(1) - 1).clamp(min=0)[:, -width:]
            with torch.autocast("cpu", torch.bfloat16, enabled=self.half):
                logits = network(
                    input_ids=ids, attention_mask=seen, position_ids=places, past_key_values=cache, logits_to_keep=1
                ).logits[:, -1, choices]
            chances = logits.float().softmax(-1)
            actions = chances.argmax(-1) if greedy else torch.multinomial(chances, 1)[:, 0]
            new = [self.answer(talk, int(action)) for talk, action in zip(live, actions, strict=True)]
            going = [row for row, tokens in enumerate(new) if tokens]
            live, new = [live[row] for row in going], [new[row] for row in going]
            seen = seen[going]
            if going:
                cache.batch_select_indices(torch.tensor(going))
        return talks


def train_trl(options: argparse.Namespace, log_path: Path) -> None:
    """GRPO of TRL. Its measurements on the test starts do not count as training time."""
    try:
        from datasets import Dataset
        from peft import LoraConfig
        from transformers import TrainerCallback
        from trl import GRPOConfig, GRPOTrainer
    except ImportError:
        raise SystemExit("this side needs TRL: pip install trl==1.16.0 datasets") from None
    language_model = rrl.load_model(options.model, precision=options.precision, seed=options.seed)
    talk = Talk(language_model, options.precision)
    tasks = {task.key: task for task in Guess().tasks("full", "train")}
    done: dict[str, Any] = {"turns": 0, "rollout": None}

    def roll_out(keys: list[str], trainer: Any) -> dict[str, Any]:
        trainer.model.eval()
        played = talk.play(trainer.model, [tasks[key] for key in keys], greedy=False)
        trainer.model.train()
        done["turns"] += sum(each.turns for each in played)
        done["rollout"] = sum(each.won for each in played) / len(played)
        return {
            "prompt_ids": [each.ids[: each.begin] for each in played],
            "completion_ids": [each.ids[each.begin :] for each in played],
            "env_mask": [each.answers for each in played],
            "logprobs": None,
            "gained": [each.gained for each in played],
        }

    class Watch(TrainerCallback):
        """Logs, measures and stops."""

        def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
            minutes = log.minutes()
            last = minutes >= options.minutes
            tested = measure(model) if last or minutes >= log.next_test else None
            log.add(done["turns"], done["rollout"], tested)
            control.should_training_stop = last

    def measure(network: Any) -> float:
        began = time.process_time()
        network.eval()
        won = [each.won for each in talk.play(network, TEST, greedy=True)]
        network.train()
        log.leave_out(time.process_time() - began)
        return sum(won) / len(won)

    rows = options.episodes // options.parts
    trainer = GRPOTrainer(
        model=language_model.model,
        processing_class=language_model.tokenizer,
        args=GRPOConfig(
            output_dir=str(options.out / "trl"),
            learning_rate=options.learning_rate,
            lr_scheduler_type="linear" if options.falling else "constant",
            num_generations=options.generations,
            per_device_train_batch_size=rows,
            gradient_accumulation_steps=options.parts,
            max_steps=options.falling or 100_000,
            # Slower, and there is memory enough.
            gradient_checkpointing=False,
            bf16=talk.half,
            use_cpu=True,
            dataloader_pin_memory=False,
            disable_tqdm=True,
            logging_strategy="no",
            save_strategy="no",
            report_to="none",
            seed=options.seed,
        ),
        train_dataset=Dataset.from_list([{"prompt": key} for key in tasks]),
        reward_funcs=lambda gained, **_: gained,
        rollout_func=roll_out,
        peft_config=LoraConfig(
            task_type="CAUSAL_LM", r=options.rank, lora_alpha=16, lora_dropout=0.0, target_modules="all-linear"
        ),
        callbacks=[Watch()],
    )
    log = Log(log_path, options)
    log.add(0, None, measure(trainer.model))
    trainer.train()


def draw(out: Path, picture: Path) -> None:
    """Success on the test starts against CPU minutes and against turns, as SVG: all logs in the folder and below it."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    # Grey is readable on a light and on a dark page. Without a salt the names inside would differ each time.
    grey = dict.fromkeys(("axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color", "text.color"), "#777777")
    with mpl.rc_context({**grey, "svg.hashsalt": "trl", "axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(9.6, 3.2), layout="constrained")
        for axes, (key, name) in zip(
            figure.subplots(1, 2, sharey=True), (("minutes", "CPU minutes"), ("turns", "turns")), strict=True
        ):
            logs = [(side, log) for side in SIDES for log in sorted(out.rglob(f"{side}.jsonl"))]
            labels = {side: label for side, (_, label) in SIDES.items()}
            for side, log in logs:
                rows = [json.loads(line) for line in log.read_text().splitlines()[1:]]
                tested = [row for row in rows if row["success"] is not None]
                points = [row[key] for row in tested], [100 * row["success"] for row in tested]
                # Each side stands in the legend once, however many seeds it has.
                axes.plot(*points, color=SIDES[side][0], marker="o", markersize=4, label=labels.pop(side, None))
                played = [row for row in rows if row["rollout"] is not None]
                points = [row[key] for row in played], [100 * row["rollout"] for row in played]
                axes.plot(*points, color=SIDES[side][0], linewidth=0.5, alpha=0.4)
            axes.set(xlabel=name, ylim=(-3, 103))
            axes.grid(color="#777777", alpha=0.2, linewidth=0.6)
        axes.legend(frameon=False)
        figure.supylabel("won, %")
        figure.savefig(picture, format="svg", transparent=True, metadata={"Date": None})


def main() -> None:
    """Run both sides, or one, and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--precision", default="auto", help="number format of both sides")
    parser.add_argument("--rank", type=int, default=16, help="of the adapters")
    parser.add_argument("--minutes", type=float, default=7.0, help="of the processor, for each side")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--side", choices=SIDES, help="train this one only")
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--episodes", type=int, default=16, help="of an update")
    parser.add_argument("--generations", type=int, default=8, help="episodes of one start in an update")
    parser.add_argument("--turns", type=int, default=14_000, help="ours: budget, over which the learning rate falls")
    parser.add_argument("--parts", type=int, default=2, help="TRL: micro-batches of an update")
    parser.add_argument("--falling", type=int, default=0, help="TRL: updates until the rate is 0; 0 = constant")
    parser.add_argument("--test-every", type=float, default=1.0, help="minutes between measurements")
    parser.add_argument("--out", type=Path, default=Path("runs/trl"))
    parser.add_argument("--draw", action="store_true", help="draw the logs below --out, and train nothing")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.precision == "auto" and not options.draw:
        options.precision = choose(torch.device("cpu"), adapters=True).precision
    if options.side:
        train = train_ours if options.side == "ours" else train_trl
        train(options, options.out / f"{options.side}.jsonl")
        return
    if not options.draw:
        for side in SIDES:
            # A process each, so that peak memory is its own.
            words = ["--side", side, "--precision", options.precision]
            subprocess.run([sys.executable, *sys.argv, *words], check=True)
    draw(options.out, options.out / "trl.svg")


if __name__ == "__main__":
    main()
