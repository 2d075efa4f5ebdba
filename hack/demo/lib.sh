#!/usr/bin/env bash
# Copyright The Lighterage Authors.
# SPDX-License-Identifier: Apache-2.0
#
# What the demo, the end-to-end tests and the benchmarks share. Sourced, from the root of the repository.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# shellcheck disable=SC2034  # read by those who source this
NAMESPACE=lighterage-system
GATEWAY_NODE_PORT=${GATEWAY_NODE_PORT:-30843}

if [ ! -f .cluster/env ]; then
  echo "There are no clusters yet: run 'make clusters' first." >&2
  exit 1
fi
# shellcheck disable=SC1091
. .cluster/env

if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then bold=$'\e[1m' dim=$'\e[2m' plain=$'\e[0m'; else bold='' dim='' plain=''; fi

# say announces a step.
say() { printf '\n%s==> %s%s\n' "$bold" "$*" "$plain"; }

# show prints a command as a user would type it, then runs it.
show() {
  printf '%s$ %s%s\n' "$dim" "$*" "$plain" >&2
  "$@"
}

east() { "${KUBECTL:-kubectl}" --kubeconfig .cluster/east.kubeconfig "$@"; }
west() { "${KUBECTL:-kubectl}" --kubeconfig .cluster/west.kubeconfig "$@"; }

# lighterage runs the plugin of this tree.
lighterage() { PATH="$PWD/bin:$PATH" "${KUBECTL:-kubectl}" lighterage "$@"; }

# helm is the pinned one, unless HELM_BIN names another command.
helm() {
  # shellcheck disable=SC2086  # several words
  ${HELM_BIN:-env CGO_ENABLED=0 go tool -modfile=hack/tools/helm/go.mod helm} "$@"
}

# meanwhile SECONDS COMMAND...: runs COMMAND every so many seconds until stop_meanwhile, or until the script ends: what
# waits elsewhere shows how far it is.
meanwhile() {
  local every=$1 parent=$$
  shift
  while sleep "$every" >/dev/null 2>&1 && kill -0 "$parent" 2>/dev/null; do "$@" >&2 || true; done &
  meanwhile=$!
}
stop_meanwhile() {
  kill "$meanwhile" 2>/dev/null || true
  wait "$meanwhile" 2>/dev/null || true
}

# await PID...: waits for all, and fails if one of them did.
await() {
  local pid failed=0
  for pid in "$@"; do wait "$pid" || failed=1; done
  return "$failed"
}

# busybox_image is what fills and checks volumes: the local registry's own on local clusters.
busybox_image() {
  if [ -n "${BUSYBOX_IMAGE:-}" ]; then echo "$BUSYBOX_IMAGE"
  elif [ "$MODE" = local ]; then echo "$REGISTRY/lab/busybox:1"
  else echo busybox:1.37.0; fi
}

# shell CLUSTER NAMESPACE CLAIM [POD]: makes the claim, if it is not there, and a pod that mounts it.
shell() {
  local pod=${4:-shell}
  sed -e "s|CLAIM|$3|" -e "s|POD|$pod|" -e "s|IMAGE|$(busybox_image)|" hack/demo/volumes.yaml | "$1" -n "$2" apply -f - >/dev/null
  "$1" -n "$2" wait "pod/$pod" --for=condition=Ready --timeout=3m >/dev/null
}

# wait_until SECONDS WHAT COMMAND...: tries the command every second; says what it waits for after two seconds and every
# fifteen, and what it waited for when time is up.
wait_until() {
  local began=$SECONDS deadline=$((SECONDS + $1)) what=$2 say_at=$((SECONDS + 2))
  shift 2
  until "$@" >/dev/null 2>&1; do
    if [ $SECONDS -ge $say_at ]; then
      echo "Waiting for $what, $((SECONDS - began)) s of at most $((deadline - began))" >&2
      say_at=$((SECONDS + 15))
    fi
    if [ $SECONDS -ge $deadline ]; then
      echo "Gave up waiting for $what. The last answer:" >&2
      "$@" >&2 || true
      return 1
    fi
    sleep 1
  done
}
