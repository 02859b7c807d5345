#!/bin/sh
# The flight (message) is the last line of what it is told.
set -eu

tail -n 1 >>poem.txt
# The tower knows which run is asking, and sends this as the writer's.
PYTHONPATH=@IMPORT_PATH@ @PYTHON@ -P -m tower send -q reviewer 'Is there a new line in poem.txt?' >/dev/null
echo 'poem.txt has a new line that is not committed, and the reviewer has been asked about it.'
