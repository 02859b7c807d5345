#!/bin/sh
# The program of the agent `writer`, started in the live tree. What it is told comes on standard input, the flight
# (message) last; what it prints is its answer.
set -eu

request=$(tail -n 1)
printf -- '- %s\n' "$request" >>NOTES.md
printf 'NOTES.md has a new line: %s\n' "$request"

# Inside a run, `tower send` speaks for this agent, along the routes of layover.toml.
if command -v tower >/dev/null; then
  tower send -q reviewer 'NOTES.md has a new line. Does it read well?' >/dev/null
  echo 'The reviewer has been asked.'
fi
