#!/usr/bin/env bash
# Copyright The Lighterage Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: apply.sh COMMIT
#
# Measures how long a Transfer of 1 MiB of noise takes from kubectl apply to its condition Complete, between the local
# clusters, with the images of this tree and with those of an earlier COMMIT. Both take turns, each time on clusters
# made for it, so that there is no downgrade. The first Transfer of a turn pulls the images and does not count. Takes
# the clusters down.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

commit=${1:?the commit that is the other contender, as in: make bench-apply BEFORE=9774d194}
commit=$(git rev-parse --verify --quiet "$commit^{commit}") || {
  echo "bench-apply: BEFORE names no commit of this clone: $1" >&2
  exit 1
}
# 12 runs of each, the pairs of which give an interval: 2.201 is Student's t of 11 degrees of freedom.
rounds=3 runs=4 student=2.201 bound=0.60
namespace=bench-apply
work=$(mktemp -d)
trap 'rm -rf "$work"; make --no-print-directory clusters-down' EXIT

# install CONTENDER: clusters with the images of one of the two.
install() {
  local previous
  make --no-print-directory clusters-down
  make --no-print-directory clusters
  if [ "$1" = before ]; then
    previous=$(hack/previous/images.sh "$commit")
    eval "$previous"
    CHART=$PREVIOUS_CHART VERSION=$PREVIOUS_VERSION hack/demo/install.sh
  else
    VERSION=$(make --no-print-directory version)
    make --no-print-directory images VERSION="$VERSION" PLATFORMS="linux/$(go env GOHOSTARCH)"
    VERSION=$VERSION hack/demo/install.sh
  fi
}

# fill makes the namespaces, a claim with the data, and the empty ones with the grant that opens them. A pod binds each
# claim, since the provisioner takes a second for that.
fill() {
  local i
  for cluster in east west; do "$cluster" create namespace "$namespace" >/dev/null; done
  shell east "$namespace" source
  east -n "$namespace" exec shell -- sh -c 'head -c 1048576 /dev/urandom >/data/noise'
  east -n "$namespace" delete pod shell --wait >/dev/null
  for i in $(seq 0 $runs); do shell west "$namespace" "copy-$i" "shell-$i"; done
  west -n "$namespace" delete pods --all --wait >/dev/null
  west apply -f - >/dev/null <<YAML
apiVersion: lighterage.dev/v1alpha1
kind: PeerGrant
metadata: {name: from-east, namespace: $namespace}
spec:
  from: [{peer: east, namespaces: [$namespace]}]
  to: [$(seq -s, -f '{kind: PersistentVolumeClaim, name: copy-%g}' 0 $runs)]
YAML
}

# transfer I prints how many seconds a Transfer took.
transfer() {
  local began
  cat >"$work/transfer.yaml" <<YAML
apiVersion: lighterage.dev/v1alpha1
kind: Transfer
metadata: {name: run-$1, namespace: $namespace}
spec:
  source: {persistentVolumeClaim: {claimName: source, path: /}}
  destination: {peer: west, persistentVolumeClaim: {claimName: copy-$1, path: /}}
  verify: Digest
YAML
  began=$(date +%s%N)
  east apply -f "$work/transfer.yaml" >/dev/null
  east -n "$namespace" wait "transfer/run-$1" --for=condition=Complete --timeout=3m >/dev/null
  awk -v ns=$(($(date +%s%N) - began)) 'BEGIN { printf "%.2f\n", ns / 1e9 }'
}

# turn CONTENDER
turn() {
  local i
  echo "bench-apply: $1" >&2
  install "$1" >&2
  # shellcheck source=hack/demo/lib.sh
  (
    . hack/demo/lib.sh
    fill
    for i in $(seq 0 $runs); do
      # What the run before left to do gets done. kubelets look at containers once a second: without the fraction each
      # run would begin at the same moment between two looks as the one before ended.
      sleep "3.$(printf %03d $((RANDOM % 1000)))"
      took=$(transfer "$i")
      if [ "$i" -gt 0 ]; then echo "$took" | tee -a "$work/$1"; fi
    done
  )
}

for round in $(seq $rounds); do
  if [ $((round % 2)) = 1 ]; then order='before now'; else order='now before'; fi
  for contender in $order; do turn "$contender"; done
done

median() { sort -n "$1" | awk '{ v[NR] = $1 } END { printf "%.2f", (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'; }
echo "A Transfer of 1 MiB, medians of $((rounds * runs)): $(median "$work/now") s," \
  "${commit:0:12}: $(median "$work/before") s"
paste "$work/now" "$work/before" | awk -v t="$student" -v bound="$bound" '
  { q[NR] = $1 / $2; l = log(q[NR]); sum += l; squares += l * l }
  END {
    n = sorted(q); middle = n % 2 ? q[(n + 1) / 2] : (q[n / 2] + q[n / 2 + 1]) / 2
    half = t * sqrt((squares - sum * sum / NR) / (NR - 1) / NR)
    low = exp(sum / NR - half); high = exp(sum / NR + half)
    printf "95 %% interval of the ratio: %.2f to %.2f\n", low, high
    printf "target transfer-apply-1MiB %.2f <=%.2f %s\n", middle, bound, high <= bound ? "ok" : "miss"
  }
  function sorted(a,   i, j, x) { # mawk has none of its own
    for (i = 2; i in a; i++) for (j = i; j > 1 && a[j - 1] > a[j]; j--) { x = a[j]; a[j] = a[j - 1]; a[j - 1] = x }
    return i - 1
  }'
