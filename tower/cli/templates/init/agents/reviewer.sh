#!/bin/sh
# The program of the agent `reviewer`, started in a snapshot of the live tree: it sees what nobody has committed yet,
# and what it writes stays in the snapshot.
set -eu

cat >/dev/null
echo 'Changed and not committed:'
git status --short
if git rev-parse --quiet --verify HEAD >/dev/null; then
  git diff HEAD -- .
else
  echo 'Nothing has been committed here so far.'
fi
