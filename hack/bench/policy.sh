#!/usr/bin/env bash
# Copyright The Lighterage Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: policy.sh full|quick [PART]    PART as in the flag -only: its figures take the place of those in the results
#
# Measures mode Auto over networks of several speeds (see hack/bench/policy). Needs root and up to 3 GiB of memory for tmpfs, in large
# pages: with small ones, what a run takes is mostly what the machine takes to find them.

set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d /dev/shm/lighterage-bench.XXXXXX)
trap 'umount "$work" 2>/dev/null || true; rm -rf "$work"' EXIT
mount -t tmpfs -o size=4g,huge=always lighterage-bench "$work"
go build -tags "${LIGHTERAGE_TAGS:-}" -o "$work/policy" ./hack/bench/policy
"$work/policy" -work "$work" -extent "$1" -only "${2:-}" ${2:+-merge}
