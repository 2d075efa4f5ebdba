#!/usr/bin/env bash
# Copyright The Lighterage Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: policy.sh full|quick [PART]    PART as in the flag -only
#
# Measures mode Auto over networks of several speeds (see hack/bench/policy). Needs root and about 1 GiB of memory for tmpfs.

set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d /dev/shm/lighterage-bench.XXXXXX)
trap 'rm -rf "$work"' EXIT
go build -tags "${LIGHTERAGE_TAGS:-}" -o "$work/policy" ./hack/bench/policy
"$work/policy" -work "$work" -extent "$1" -only "${2:-}"
