#!/usr/bin/env bash
# Copyright The Lighterage Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: fuzz.sh TIME
#
# Runs every fuzz target of the module for TIME each, one after the other, with
# the engines that LIGHTERAGE_TAGS names.
#
# Each starts from its f.Add and from the files in testdata/fuzz/TARGET beside the
# test, which every `go test` runs as well. What fails is minimised and written there:
# commit it with the fix, under a name that says what it is, and for an engine to
# the other engines of its codec too. What is new and does not fail stays in Go's
# build cache, out of the tree.
set -euo pipefail

time=${1:?usage: fuzz.sh TIME}
cd "$(dirname "${BASH_SOURCE[0]}")/.."

targets=$(grep -rHoE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' agent api controllers | sed 's/func //')
all=$(grep -c . <<<"$targets" || true)
count=0
while IFS=: read -r file target; do
	[ -n "$file" ] || continue
	dir=$(dirname "$file")
	echo "== [$((count + 1))/$all] $target in $dir, $time"
	go test -tags "${LIGHTERAGE_TAGS:-}" -run '^$' -fuzz "^$target\$" -fuzzminimizetime 10x -fuzztime "$time" "./$dir"
	count=$((count + 1))
done <<<"$targets"
[ $count -gt 0 ] || { echo "fuzz: found no fuzz target" >&2; exit 1; }
echo "$count fuzz targets found nothing."
