"""Translation of the household errors into those of reflect-rl, so that its command line ends with one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from alfworld_native.errors import HouseholdError, TextWorldError, TextWorldTimeoutError
from reflect_rl.errors import EnvironmentTimeoutError, FaultyEnvironmentError, UserError


@contextmanager
def translated_errors() -> Iterator[None]:
    """Turn errors of the household package into those of reflect-rl; a context or a decorator.

    Raises:
        UserError: a game, a file or a setting cannot be used.
        FaultyEnvironmentError: TextWorld failed.
        EnvironmentTimeoutError: TextWorld did not answer in time.
    """
    try:
        yield
    except TextWorldTimeoutError as error:
        raise EnvironmentTimeoutError(str(error)) from error
    except TextWorldError as error:
        raise FaultyEnvironmentError(str(error)) from error
    except HouseholdError as error:
        raise UserError(str(error)) from error
