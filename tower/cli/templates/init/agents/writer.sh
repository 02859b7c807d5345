#!/bin/sh
# The program of the agent `writer`, started in the live tree. What it is told comes on standard input; what it prints
# is its answer. The flight (message) stands below the last heading, and may have several lines.
set -eu

request=$(sed '1,/^## Tower: the flight (message)/d' | tail -n +2)
printf '%s\n' "$request" | sed '1s/^/- /; 2,$s/^/  /' >>NOTES.md
printf 'NOTES.md has a new line: %s\n' "$request"

# Inside a run, `tower send` speaks for this agent, along the routes of layover.toml.
if command -v tower >/dev/null; then
  tower send -q reviewer 'NOTES.md has a new line. Does it read well?' >/dev/null
  echo 'The reviewer has been asked.'
fi
