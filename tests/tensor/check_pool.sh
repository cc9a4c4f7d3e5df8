#!/bin/sh
# Checks every interleaving of pool.pml, the model of the thread pool, with Spin, and that Spin finds
# each fault that can be put into the model. Needs spin and a C compiler; takes 15 seconds and 1 GB
# of memory.
set -eu
model=$(realpath "$(dirname "$0")/pool.pml")
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
for fault in 0 1 2 3 4; do
  spin -DFAULT=$fault -search -O2 -m100000 "$model" >found 2>&1 || true
  errors=$(sed -n 's/.*errors: //p' found)
  states=$(sed -n 's/ *\([0-9]*\) states, stored.*/\1/p' found)
  echo "fault $fault: ${states:-no} states, ${errors:-no} errors"
  if [ "$fault" = 0 ]; then expected=0; else expected=1; fi
  if [ "$errors" != "$expected" ] || grep -q "max search depth too small" found; then
    cat found
    exit 1
  fi
done
