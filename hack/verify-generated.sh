#!/usr/bin/env bash
# Copyright The Lighterage Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: verify-generated.sh PATH...
#
# Runs `make generate` and fails when it changes one of PATHs, which are left as
# they were found: it works in a copy.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cd "$root"
# The tree as it is, without what was built and without history.
tar -c --exclude=./.git --exclude=./bin --exclude=./dist --exclude=./.cluster . | tar -x -C "$work"
make -C "$work" generate >"$work/.generate.log" 2>&1 || {
	cat "$work/.generate.log" >&2
	echo "verify-generated: make generate failed; its output is above" >&2
	exit 1
}
changed=0
for path in "$@"; do
	diff -ruN "$path" "$work/$path" || changed=1
done
if [ $changed = 1 ]; then
	echo "verify-generated: generated files are out of date; run 'make generate' and commit the result" >&2
	exit 1
fi
echo "Generated files are up to date."
