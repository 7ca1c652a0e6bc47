"""Methods of this package: a model plays as it comes, alone or with its own reflections, behind a server or here."""

from __future__ import annotations

from reflect_rl.evaluation.methods import Method
from reflect_served.settings import CHAT, PROMPTED

CHAT_ALONE = Method("chat", "Chat model", script=CHAT, colour="#332288", place=30)
CHAT_REFLECT = Method("chat_reflect", "Chat model, reflection", script=CHAT, writer=CHAT, colour="#117733", place=40)
PROMPTED_ALONE = Method("prompted", "Prompted", script=PROMPTED, colour="#6699CC", place=32)
PROMPTED_REFLECT = Method(
    "prompted_reflect", "Prompted, reflection", script=PROMPTED, writer=PROMPTED, colour="#997700", place=42
)
