"""Errors of a server, in one sentence each."""

from __future__ import annotations

from reflect_rl.errors import UserError


class EndpointError(UserError):
    """The endpoint does not answer as it should; nothing that it has answered is lost."""


class RefusedError(EndpointError):
    """The endpoint does not take this one request (HTTP 400, 413, 422)."""


class BudgetError(EndpointError):
    """The next request could exceed the budget, so it was not sent."""


class UnreadableError(ValueError):
    """A reply that is no answer; the message says what is wrong with it."""
