#!/usr/bin/env bash
# Copyright The Lighterage Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: exchange.sh
#
# Has the programs of this machine and of s390x, the latter under QEMU with the
# software model of DFLTCC, read the streams of each other: all engines, all levels.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$root"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/ours" "$work/theirs"

(
	env=$(hack/engines/env.sh "$(go env GOHOSTARCH)")
	eval "$env"
	go test -c -o "$work/here" -tags "$LIGHTERAGE_TAGS" ./test/vectors
)
(
	env=$(test/dfltcc/env.sh)
	eval "$env"
	go test -c -o "$work/s390x" -tags "$LIGHTERAGE_TAGS" -ldflags '-linkmode external -extldflags -static' ./test/vectors
)

# call DOES PROGRAM... runs one test, which must not skip.
call() {
	local what=$1
	shift
	echo "== $what"
	"$@" -test.v | tee "$work/log"
	grep -q '^--- PASS' "$work/log"
}
call "this machine writes" "$work/here" -test.run '^TestExchangeWrite$' -exchange-out "$work/ours"
call "s390x reads" qemu-s390x-static "$work/s390x" -test.run '^TestExchangeRead$' -exchange-in "$work/ours"
call "s390x writes" qemu-s390x-static "$work/s390x" -test.run '^TestExchangeWrite$' -exchange-out "$work/theirs"
[ -n "$(find "$work/theirs" -name 'dfltcc-*')" ] || { echo "exchange: nothing was written on the model of DFLTCC" >&2; exit 1; }
call "this machine reads" "$work/here" -test.run '^TestExchangeRead$' -exchange-in "$work/theirs"
