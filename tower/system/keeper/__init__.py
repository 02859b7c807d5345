"""The keeper: one small process per run, which outlives the tower.

It starts the program, copies its output through the masker, carries out the limits, ends the whole tree and
records the exit. It knows nothing of flights. It is started as `python -I -S` once per run, so these modules load
little more than the interpreter's own core, all of it at the start: the package may be replaced under it.
"""
