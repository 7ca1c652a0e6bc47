"""The annotations of a run, made by one job for all its units.

So a state that several of them meet is asked about once, and a budget is that of the run. What there is in the folder:

    annotation/annotations.jsonl   question, answer's text and action, repairs, reason
    annotation/card.json           who wrote, what became of the answers, what was spent
    annotation/requests.sqlite     answers, and the list of all that was sent (of the endpoint)
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from reflect_rl.errors import RunFolderError
from reflect_rl.runs.config import RunConfig
from reflect_rl.runs.demonstrate import demonstrated, excluded_states
from reflect_rl.runs.folder import Job, units
from reflect_rl.runs.stages import Stage
from reflect_rl.store import read_json, read_jsonl, write_json, write_jsonl
from reflect_rl.types import Episode, Progress
from reflect_served.annotation.questions import (
    Annotations,
    Annotator,
    Question,
    annotate,
    counted,
    digest,
    nothing_kept,
    verdict_from_json,
)
from reflect_served.annotation.verdict import REASONS, REPAIRS, Verdict
from reflect_served.llm import INSTALL, Endpoint, Spent
from reflect_served.players.run import FOLDER as SHARED
from reflect_served.settings import annotation_config, annotator_endpoint

ENDPOINT = "endpoint"
"""Name of the annotator."""

FOLDER = "annotation"
"""Folder of the annotations in a run folder."""
VERDICTS, CARD = "annotations.jsonl", "card.json"


class AnnotationStage(Stage):
    """Reflections by a language model, on the demonstrations of all units."""

    name = "annotate"
    help = (
        "Let a language model behind an API write the reflections of the demonstrations. With --dry-run: show what "
        "would be sent, and do nothing."
    )
    before = "data"
    annotator = ENDPOINT

    def plan(self, run: RunConfig) -> Iterator[Job]:
        """One job for all units, so that a state that several of them meet is asked about, and paid for, once."""
        yield Job(next(iter(units(run))), self.name, "", run.output_dir / FOLDER)

    def do(self, job: Job, run: RunConfig, progress: Progress) -> None:
        """Ask, judge the answers, and write what became of them."""
        annotate_run(run, questions_of(run), progress)

    def refusal(self, run: RunConfig) -> str:
        """The reason why there is nobody to ask."""
        if run.data.annotator == ENDPOINT:
            return ""
        return (
            f"data.annotator is {run.data.annotator!r}, so there is nobody to ask. Set data.annotator = 'endpoint', "
            "and endpoint.base_url and endpoint.model. docs/guides/annotation.md shows a configuration."
        )

    def summary(self, run: RunConfig) -> str:
        """Fate of the answers."""
        return card_text(run)


class EndpointAnnotator:
    """The language model whose texts take the places of the oracle's (`data.annotator = "endpoint"`)."""

    def mistakes(self, run: RunConfig) -> Iterator[str]:
        """Mistakes about the language model, which must be named."""
        if not annotator_endpoint(run).base_url:
            yield (
                "data.annotator: 'endpoint' asks a language model, and none is named. Set endpoint.base_url and "
                "endpoint.model, or those of data.annotation.endpoint."
            )
        elif importlib.util.find_spec("openai") is None:
            yield INSTALL

    def preview(self, run: RunConfig, stages: Collection[str]) -> Iterator[str]:
        """The questions of a run."""
        if AnnotationStage.name in stages:
            yield preview_annotations(run, questions_of(run))

    def facts(self, run: RunConfig) -> dict[str, object]:
        """Model, prompts and settings."""
        return questioner_of(run).facts(annotator_endpoint(run))

    def read(self, run: RunConfig, episodes: Iterable[Episode], excluded: frozenset[str]) -> Annotations:
        """The annotations of a unit's demonstrations.

        Raises:
            RunFolderError: they are missing, corrupt, or of other demonstrations.
        """
        return read_annotations(run, episodes, excluded)

    def digest(self, run: RunConfig) -> str:
        """A hash of all texts that were kept."""
        return str(_read_card(run)["digest"])


def questioner_of(run: RunConfig) -> Annotator:
    """The one who makes the questions of a run."""
    return Annotator(annotation_config(run), run.env)


def questions_of(run: RunConfig) -> dict[str, list[Question]]:
    """Questions about the demonstrations of each unit, by the unit's name."""
    excluded, annotator = excluded_states(run), questioner_of(run)
    played = ((unit.name, demonstrated(run, unit, excluded)) for unit in units(run))
    return {
        name: [question for pool in kinds.values() for question in annotator.questions(pool, excluded)]
        for name, kinds in played
    }


def _endpoint(config: RunConfig) -> Endpoint:
    """Open the endpoint of the annotator. One that the players ask too shares their answers, and their budget."""
    # Answers are kept by folder: two servers in one folder would share a budget that is each one's own.
    is_own = bool(annotation_config(config).endpoint.base_url)
    folder = config.output_dir / (FOLDER if is_own else SHARED)
    section = "data.annotation.endpoint" if is_own else "endpoint"
    return Endpoint(annotator_endpoint(config), folder, "annotations", section)


def annotate_run(
    config: RunConfig, asked: Mapping[str, Sequence[Question]], progress: Callable[[int, int, str], None]
) -> None:
    """Ask, judge the answers, and write what became of them.

    Args:
        config: the run.
        asked: the questions of each unit, by its name.
        progress: is told after each answer, with the cost so far.

    Raises:
        EndpointError: the server does not answer as it should, or the budget is used up; the same command goes on.
        UserError: no answer is of use.
    """
    endpoint, everything = _endpoint(config), [question for unit in asked.values() for question in unit]

    def told(done: int, total: int, spent: Spent) -> None:
        progress(done, total, _spending(spent.prompt_tokens + spent.completion_tokens, spent.cost))

    verdicts = annotate(everything, endpoint, annotation_config(config).max_words, told)
    # Raised before anything is written: an empty file would count as finished annotations.
    if (failure := nothing_kept(verdicts)) is not None:
        raise failure
    # Units meet the same states, so a question may be there several times; its key is there once.
    folder, rows = config.output_dir / FOLDER, {question.key: question for question in everything}
    # The texts before the card: whoever reads the card's digest finds the texts that it is of.
    write_jsonl(folder / VERDICTS, (_row(question, verdicts[key]) for key, question in rows.items()))
    write_json(folder / CARD, _card(config, asked, verdicts, endpoint))


def _row(question: Question, verdict: Verdict) -> dict[str, Any]:
    """Make a line of `annotations.jsonl`."""
    told = question.told
    # For a person who checks the texts: the key alone, a hash, says nothing.
    asked = {"state": told.state, "kind": question.kind, "solution": told.actions[question.solution]}
    return {"key": question.key, **asdict(verdict), **asked}


def _card(
    config: RunConfig, asked: Mapping[str, Sequence[Question]], verdicts: Mapping[str, Verdict], endpoint: Endpoint
) -> dict[str, Any]:
    actions, spent, known = annotation_config(config).actions, endpoint.spent, endpoint.log.known
    everything = [question for unit in asked.values() for question in unit]
    return {
        "annotator": questioner_of(config).facts(endpoint.config),
        "endpoint": endpoint.config.host,
        **counted(everything, verdicts, actions=actions),
        "units": {name: len(questions) for name, questions in asked.items()},
        "digest": digest(verdicts),
        # An interrupted annotation goes on in a second call, so what one call spent is not what the run spent.
        "spent_by_this_call": asdict(spent),
        "spent_in_all": {"folder": str(endpoint.folder), "tokens": known.tokens, "cost": known.cost},
    }


REMEDY = "Delete {mark} and run `reflect-rl annotate` again; what was answered is not asked again."


def read_annotations(config: RunConfig, episodes: Iterable[Episode], excluded: frozenset[str]) -> Annotations:
    """The annotations of a unit's demonstrations.

    Raises:
        RunFolderError: they are missing, corrupt, or of other demonstrations.
    """
    folder = config.output_dir / FOLDER
    remedy = REMEDY.format(mark=folder / "done")
    try:
        # Checked at every reading: the file lies in the open and people edit texts in it.
        verdicts = {str(row["key"]): verdict_from_json(row) for row in read_jsonl(folder / VERDICTS, remedy)}
    except (KeyError, TypeError):
        raise RunFolderError(f"{folder / VERDICTS} holds other rows than annotations. {remedy}") from None
    try:
        return Annotations(questioner_of(config), verdicts, episodes, excluded, annotator_endpoint(config))
    # Other demonstrations have other states: their texts must not be trained on without a word.
    except KeyError:
        raise RunFolderError(f"{folder / VERDICTS} lacks states of the demonstrations. {remedy}") from None


def _read_card(config: RunConfig) -> dict[str, Any]:
    folder = config.output_dir / FOLDER
    remedy = REMEDY.format(mark=folder / "done")
    card = read_json(folder / CARD, remedy)
    if not isinstance(card, dict) or "digest" not in card:
        raise RunFolderError(f"{folder / CARD} is no card of annotations. {remedy}")
    return card


def preview_annotations(config: RunConfig, asked: Mapping[str, Sequence[Question]]) -> str:
    """Dry run: what would be asked, and what it would take at most; nothing is sent."""
    return _endpoint(config).preview([question.request for unit in asked.values() for question in unit])


def _spending(tokens: int, cost: float) -> str:
    return f"{tokens:,} tokens" + (f", cost {cost:.4g}" if cost else "")


def card_text(config: RunConfig) -> str:
    """Describe what became of the answers, what was spent and where the files are, for a terminal.

    Raises:
        RunFolderError: the run has no annotations.
    """
    card = _read_card(config)
    questions, dropped = sum(card["questions"].values()), sum(card["dropped"].values())
    lines = [
        f"annotations by {card['annotator']['model']} at {card['endpoint']}",
        f"  {card['turns']} turns, {questions} questions",
        f"  kept {card['kept_untouched']} as they are, {card['kept_repaired']} repaired",
        # A card of another version may count what this one has no name for.
        *(f"    {count:6}  {name}: {REPAIRS[name]}" for name, count in card["repairs"].items() if name in REPAIRS),
        f"  dropped {dropped}; {card['turns_left_out']} turns are left out of the data sets",
        *(f"    {count:6}  {name}: {REASONS[name]}" for name, count in card["dropped"].items() if name in REASONS),
    ]
    # Only in runs that let the annotator choose the action, too.
    if "actions_other_than_the_solvers" in card:
        lines.append(f"  actions other than the solver's: {card['actions_other_than_the_solvers']}")
    spent = card["spent_in_all"]
    lines.append(f"  spent in all from {spent['folder']}: {_spending(spent['tokens'], spent['cost'])}")
    lines.append(f"files: {config.output_dir / FOLDER}")
    return "\n".join(lines)
