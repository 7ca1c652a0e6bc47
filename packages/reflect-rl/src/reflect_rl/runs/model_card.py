"""The card of a saved model, `README.md` beside its weights: what it is, how it was made and how it is asked.

It is filled from the run. Paths of the machine stay out of it, since model folders are passed on.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from reflect_rl.config import EMBEDDED, Rule
from reflect_rl.data.generate import BASE
from reflect_rl.evaluation.evaluate import ResultRow
from reflect_rl.evaluation.methods import find_method
from reflect_rl.models.catalogue import KNOWN
from reflect_rl.models.chat_template import FIXED
from reflect_rl.models.load import LABELS
from reflect_rl.models.source import HUB
from reflect_rl.prompts import TEMPLATE_VERSION, action_text_prompt, lines_prompt, policy_prompt, reflection_prompt
from reflect_rl.runs.config import RunConfig
from reflect_rl.runs.folder import Unit
from reflect_rl.store import write_text
from reflect_rl.types import Observation, View

README = "README.md"
RESULTS = "\n## Results\n"

ROLES = {
    "reflector": "reflection player (reads a state, writes a reflection)",
    "policy_plain": "policy (reads a state and numbered actions, answers with the number of one)",
    "policy_reflect": "policy (reads a state, a reflection and numbered actions, answers with the number of one)",
    "policy_lexical": "policy (reads a state, a reflection made by rules and numbered actions, answers with a number)",
    BASE: "start of both players (has read texts of the environment, plays nothing yet)",
}
"""Data set -> what a model that learned from it does."""


def card_of_sft(config: RunConfig, unit: Unit, dataset: str) -> str:
    """The card of a model after supervised training on this data set."""
    examples = "positive examples only" if dataset.endswith("_positive") else "positive and negative examples"
    steps = "supervised training" if dataset == BASE else f"supervised training on `{dataset}` ({examples})"
    return model_card(config, unit, dataset.removesuffix("_positive"), steps)


def card_of_rlft(config: RunConfig, unit: Unit, name: str) -> str:
    """The card of a policy after online RL, as its method has it."""
    method, settings = find_method(name), config.rlft
    start = f"supervised training on `{method.policy}`, then " if method.policy else ""
    role = (method.policy or "policy_plain").removesuffix("_positive")
    steps = f"{start}online RL by {settings.algorithm.name}, {settings.total_turns:,} turns (method `{name}`)"
    return model_card(config, unit, role, steps)


def add_results(folder: Path, rows: Sequence[ResultRow]) -> None:
    """Put the results of a player into the card of its policy; those that stand there are replaced.

    Args:
        folder: of the model; nothing happens where it has no card.
        rows: at least one.
    """
    path = folder / README
    # Models from Python, and folders of earlier versions, have no card.
    if not path.is_file():
        return
    # Results of an earlier evaluation are cut off, so that the card never shows two tables.
    text = path.read_text(encoding="utf-8").partition(RESULTS)[0]
    # Shorter horizons are cut from the same episodes; the longest one alone says what the player can do.
    longest = max(row.horizon for row in rows)
    lines = [
        f"| {row.method} | {row.mode} | {row.decoding} | {100 * row.success_rate:.1f} "
        f"[{100 * row.ci95[0]:.0f}, {100 * row.ci95[1]:.0f}] | {row.episodes} |"
        for row in rows
        if row.horizon == longest
    ]
    header = [
        "| method | mode | decoding | success, % [95% interval] | episodes |",
        "| --- | --- | --- | ---: | ---: |",
    ]
    title = f"{rows[0].benchmark}, {rows[0].split} split, horizon {longest} turns:"
    # A run that began with another's models shares their files, so the card is replaced and not written in place.
    write_text(path, "\n".join([text + RESULTS, title, "", *header, *lines]) + "\n")


def model_card(config: RunConfig, unit: Unit, role: str, steps: str, data: str = "", answer: str = "") -> str:
    """The card of a model that a run has trained.

    Args:
        config: of the run.
        unit: budget and seed.
        role: data set that its prompts are those of (see `ROLES`), or what it is.
        steps: how it was trained.
        data: that it learned from (empty: the demonstrations).
        answer: what follows its prompts (empty: what the players answer).
    """
    base, licence = _origin(config)
    facts = {
        "environment": config.env.identity,
        "role": ROLES.get(role, role),
        "base model": base,
        "licence of the base model": licence,
        "method": steps,
        "data": data or f"demonstrations from {unit.budget} starts, label source `{config.data.label_source}`",
        "seed": str(unit.seed),
        "prompt template": f"version {TEMPLATE_VERSION}, scoring `{config.prompt.scoring}`",
    }
    return "\n".join(
        [
            f"# {role} for {config.environment.name}",
            "",
            "Trained with reflect-rl, two-player online RL fine-tuning ([Reflect-RL](https://arxiv.org/abs/2402.12621)).",
            "",
            *(f"- **{key}**: {value}" for key, value in facts.items()),
            "",
            "## Prompt",
            "",
            *_prompt(role, answer, config.prompt.scoring),
            "",
        ]
    )


def _prompt(role: str, answer: str, rule: Rule) -> list[str]:
    """The prompt of an example state, in a block of code."""
    state = Observation("(the state)", ("first action", "second action"))
    if role == "reflector":
        # Rendered by the code that asks the model, so that the card cannot drift from it.
        text, usual = reflection_prompt(View(state, (0, 1))), "the answer is the reflection"
    else:
        written = "(the reflection)" if role in ("policy_reflect", "policy_lexical") else None
        view, usual = View(state, (0, 1), written), "the answer is the label of an action"
        text = policy_prompt(view, ("(label 1)", "(label 2)"))
        if rule == "choice_token":
            usual = f"the answer is a label, one token, of those that `{LABELS}` beside this card lists in order"
        if rule == "line_end":
            text, usual = lines_prompt(view), "an action is scored where its line ends"
        elif rule != "choice_token":
            text, usual = action_text_prompt(view), "the answer is the text of an action"
    chat = ", ".join(f"`{name}` = {value!r}" for name, value in FIXED.items())
    return [
        *("```text", text.rstrip("\n"), "```", ""),
        f"The prompt ends with a line break; {answer or usual}. Where the tokenizer here has a chat template, the "
        "prompt is the message of a user, without its last line break, followed by the generation prompt; the "
        f"template is rendered with {chat}.",
    ]


def _origin(config: RunConfig) -> tuple[str, str]:
    """Name and licence of the base model; of a folder, its last part."""
    path = config.model.path
    if path == EMBEDDED:
        return "embedded (random weights, trained in this run alone)", "none: there is no pretrained model"
    known = KNOWN.get(path)
    if known is not None:
        return f"{known.hub_id} ({known.name})", known.license
    # The part behind the last slash: the path of a folder would tell strangers about this machine.
    name = path.removeprefix(HUB) if path.startswith(HUB) else Path(path).name
    return name, "see the card of the base model"
