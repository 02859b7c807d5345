"""Killing things: every named point, every system call, and the power, while work is under way.

`python -m tests.crash` from the root of the repository prints the tables of `docs/reliability.md`.
"""
