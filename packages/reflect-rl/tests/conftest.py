"""Makes the helper modules of this folder, such as `tiny_models`, importable in every test."""

import signal

from hypothesis import settings

from reflect_rl import watchdog

# The same examples in every run, and no time limit for each, so that a busy machine fails no test.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")

# Shells start commands in the background deaf to Ctrl-C, which some tests press.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A machine that stands still for seconds, as a busy or a virtual one may, must not end the process of the tests.
watchdog.GRACE = 600.0
