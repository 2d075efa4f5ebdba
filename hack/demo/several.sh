#!/usr/bin/env bash
# Copyright The Lighterage Authors.
# SPDX-License-Identifier: Apache-2.0
#
# The demo's third act: the claim ledger of east goes to one claim of east and to two of west by one Transfer, which reads
# and compresses each block once. Proves that all are equal, and shows what compressing cost beside one destination alone.
#   several.sh NAMESPACE SECONDS
# SECONDS of CPU time are what compressing cost when the claim was moved to one destination.

# shellcheck source=hack/demo/lib.sh
. "$(dirname "$0")/lib.sh"
demo=$1 alone=$2
names=(near far further)

say "Three empty claims: one in east, two in west, and the grant for these"
sed "s/ledger-copy/ledger-near/" hack/demo/claim.yaml | east -n "$demo" apply -f -
for name in far further; do sed "s/ledger-copy/ledger-$name/" hack/demo/claim.yaml | west -n "$demo" apply -f -; done
show west apply -f hack/demo/several-peergrant.yaml

say "One Transfer to all three; the manager makes a Transfer for each, which it calls by the names of the destinations"
sed 's/^/    /' hack/demo/several-transfer.yaml
show east apply -f hack/demo/several-transfer.yaml
hack/demo/progress.sh east "$demo" ledger-several
show east -n "$demo" get transfers -o wide

say "What compressing cost: each destination is charged its share of what was done once for all"
total=0
for name in "${names[@]}"; do
  seconds=$(east -n "$demo" get transfer "ledger-several-$name" -o jsonpath='{.status.usage.send.compressSeconds}')
  printf '  %-24s %8s s\n' "ledger-several-$name" "${seconds:-?}"
  total=$(awk -v a="$total" -v b="${seconds:-0}" 'BEGIN { printf "%.2f", a + b }')
done
printf '  %-24s %8s s\n  %-24s %8s s\n' "all three" "$total" "one alone, above" "$alone"

say "Proof as before, of each"
shell east "$demo" ledger
shell east "$demo" ledger-near near
hack/demo/proof.sh "$demo" east/shell east/near
for name in far further; do
  shell west "$demo" "ledger-$name" "$name"
  hack/demo/proof.sh "$demo" east/shell "west/$name"
done
east -n "$demo" delete pod shell near --wait >/dev/null
west -n "$demo" delete pod far further --wait >/dev/null
