#!/bin/sh
# Copies the targets of every run in a folder to one folder, every few seconds, since Prometheus accepts a pattern in a
# file's name only, not in a folder's.
#
#   find-runs.sh RUNS FOUND
runs=$1 found=$2
while :; do
  for file in "$runs"/*/prometheus-targets.json; do
    [ -e "$file" ] || continue
    name=${file%/*}
    copy=$found/${name##*/}.json
    cmp -s "$file" "$copy" || { cp "$file" "$copy.new" && mv "$copy.new" "$copy"; }
  done
  for copy in "$found"/*.json; do
    name=${copy##*/}
    [ -e "$runs/${name%.json}/prometheus-targets.json" ] || rm -f "$copy"
  done
  sleep 2
done
