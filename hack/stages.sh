#!/usr/bin/env bash
# Copyright The Lighterage Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Runs targets of the Makefile one after the other, up to the first that fails. Says which begins, and
# prints how long each took.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

table=""
status=0
begun=$SECONDS
for target in "$@"; do
  start=$SECONDS
  number=$((${number:-0} + 1))
  printf '\n==> [%d/%d] make %s, %d:%02d after the beginning\n' "$number" $# "$target" $(((start - begun) / 60)) $(((start - begun) % 60))
  "${MAKE:-make}" --no-print-directory "$target" || status=$?
  took=$((SECONDS - start))
  table+=$(printf '%-22s %3d:%02d' "$target" $((took / 60)) $((took % 60)))
  [ "$status" = 0 ] || { table+="  failed"$'\n'; break; }
  table+=$'\n'
done
took=$((SECONDS - begun))
printf '\n%-22s %6s\n%s%-22s %3d:%02d\n' stage min:s "$table" all $((took / 60)) $((took % 60))
exit "$status"
