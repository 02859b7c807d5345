"""What Tower costs, measured beside programs that everybody can install: `python -m tests.bench [NAME ...]`.

A benchmark is a module with `measure(*, tiny)`, which returns rows of one table. Nothing here asserts a time: whether
a figure is reached is a word in the table, for people.
"""
