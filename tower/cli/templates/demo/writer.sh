#!/bin/sh
# The flight (message) stands below the last heading of what it is told.
set -eu

sed '1,/^## Tower: the flight (message)/d' | tail -n +2 >>poem.txt
# The tower knows which run is asking, and sends this as the writer's.
PYTHONPATH=@IMPORT_PATH@ @PYTHON@ -P -m tower send -q reviewer 'Is there a new line in poem.txt?' >/dev/null
echo 'poem.txt has a new line that is not committed, and the reviewer has been asked about it.'
