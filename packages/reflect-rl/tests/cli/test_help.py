"""What the help says of a setting, and that no start waits for it."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pydantic import Field, create_model

from reflect_rl.cli.help import meaning
from reflect_rl.config import Frozen


class Lamp(Frozen):
    """A lamp."""

    watts: int = 40
    """Power, in watts;
    at the mains."""
    colour: str = Field("white", description="Colour of the light.")
    """Not shown: the description is."""
    as_json: bool = Field(False, alias="json")
    """Print JSON."""
    bare: int = 0


class Street(Frozen):
    """A street of lamps."""

    lamp: Lamp = Lamp()
    """Each of them."""


class Brighter(Lamp):
    """A lamp with another default."""

    watts: int = 60


@pytest.mark.parametrize(
    ("model", "name", "told"),
    [
        (Lamp, "watts", "Power, in watts;\nat the mains."),
        (Lamp, "colour", "Colour of the light."),
        (Lamp, "json", "Print JSON."),
        (Lamp, "bare", ""),
        (Street, "lamp.watts", "Power, in watts;\nat the mains."),
        (Brighter, "watts", "Power, in watts;\nat the mains."),
        # Made while the program runs, so there is no source of it; its base class has one.
        (create_model("Dimmer", __base__=Lamp, level=(int, 0)), "json", "Print JSON."),
        (create_model("Dimmer", __base__=Lamp, level=(int, 0)), "level", ""),
    ],
)
def test_the_meaning_of_a_setting(model, name, told):
    assert meaning(model, name) == told


def test_models_read_no_source_when_they_are_made():
    code = (
        "import inspect; read, whole = [], inspect.findsource\n"
        "inspect.findsource = lambda found: read.append(found) or whole(found)\n"
        "import reflect_rl.runs.config, reflect_rl.cli.help as help\n"
        "before = len(read)\n"
        "help.meaning(reflect_rl.runs.config.RunConfig, 'workers')\n"
        "print(before, len(read))"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == ["0", "1"]
