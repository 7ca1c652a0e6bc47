"""Methods of this package: a chat model plays as it is, alone or with its own reflections."""

from __future__ import annotations

from reflect_rl.evaluation.methods import Method
from reflect_served.settings import CHAT

CHAT_ALONE = Method("chat", "Chat model", script=CHAT, colour="#332288", place=30)
CHAT_REFLECT = Method("chat_reflect", "Chat model, reflection", script=CHAT, writer=CHAT, colour="#117733", place=40)
