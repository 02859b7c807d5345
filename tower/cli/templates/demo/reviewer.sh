#!/bin/sh
set -eu

cat >/dev/null
echo "In $PWD I see, compared with the last commit:"
git diff --unified=0 HEAD -- poem.txt | grep '^[-+][^-+]'
echo @SCRIBBLE@ >>poem.txt
echo 'I have also written into poem.txt here, by its relative name.'
