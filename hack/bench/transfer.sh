#!/usr/bin/env bash
# Copyright The Lighterage Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Measures moving trees beside rsync and tar (see hack/bench/transfer). Needs about 5 GiB of memory for tmpfs.
#   BENCH_SIZE_MIB  size of the demo's tree   (1300)
#   BENCH_RUNS      runs of each              (5)
#   BENCH_ONLY      one tree: mixed, demo or small; nothing is written then
#   BENCH_CPU       cpu.stat or cpuacct.usage of the control group that this runs in, to count its CPU time alone; nothing is written then
#   BENCH_MATCH     only contenders with this in their name; nothing is written then

set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d /dev/shm/lighterage-bench.XXXXXX)
trap 'rm -rf "$work"' EXIT

mkdir "$work/demo"
if [ "${BENCH_ONLY:-demo}" = demo ]; then
	echo "Collecting ${BENCH_SIZE_MIB:-1300} MiB of real data in memory"
	hack/demo/data.sh "${BENCH_SIZE_MIB:-1300}" | tar -x -o -f - -C "$work/demo"
fi
go run ./hack/bench/transfer -agent "${AGENT:-bin/agent}" -demo "$work/demo" -work "$work" -runs "${BENCH_RUNS:-5}" -only "${BENCH_ONLY:-}" -match "${BENCH_MATCH:-}" -cpu-usage "${BENCH_CPU:-}"
