#!/usr/bin/env bash
# Copyright The Lighterage Authors.
# SPDX-License-Identifier: Apache-2.0
#
# The demo: fills a claim in cluster east with real data, moves it to cluster west by a Transfer, proves that both are equal,
# archives the claim in a bucket and restores it from there in the other cluster. Then it shows what that cost either
# cluster, verifies the receipt, runs the Transfer again. With LIVE_VOLUME=1 it then moves what a program never stops
# writing to, with SEVERAL=1 it sends the claim to three destinations by one Transfer.
# 'make demo' brings up the clusters, builds the images and calls this.

# shellcheck source=hack/demo/lib.sh
. "$(dirname "$0")/lib.sh"
SIZE_MIB=${DEMO_SIZE_MIB:-256}
demo=lighterage-demo

# clear_earlier CLUSTER: a run of the demo starts from nothing, whatever an earlier one left; it takes away nothing but
# its own.
clear_earlier() {
  local cluster=$1
  "$cluster" get namespace "$demo" >/dev/null 2>&1 || return 0
  if [ "$("$cluster" get namespace "$demo" -o 'jsonpath={.metadata.labels.lighterage\.dev/demo}')" != true ]; then
    echo "Cluster $cluster has a namespace $demo that is not the demo's (label lighterage.dev/demo=true); rename or delete it." >&2
    return 1
  fi
  echo "Deleting what an earlier demo left in cluster $cluster" >&2
  "$cluster" -n "$demo" delete transfer --all --timeout=3m >/dev/null 2>&1 || true
  "$cluster" delete namespace "$demo" --timeout=5m >/dev/null
}
clear_earlier east &
clearing=($!)
clear_earlier west &
clearing+=($!)
CGO_ENABLED=0 go build -o bin/ ./controllers/cmd/kubectl-lighterage &
building=$!

hack/demo/install.sh
say "Waiting for the plugin, and until what an earlier demo left is gone"
await "${clearing[@]}" "$building"

say "Namespace $demo in both clusters; in west an empty claim, and the grant without which nothing may enter"
for cluster in east west; do
  "$cluster" create namespace "$demo"
  "$cluster" label namespace "$demo" lighterage.dev/demo=true pod-security.kubernetes.io/enforce=restricted >/dev/null
done
west -n "$demo" apply -f hack/demo/claim.yaml
show west apply -f hack/demo/peergrant.yaml

say "Filling the claim ledger in east with at least $SIZE_MIB MiB of real data from this machine"
shell east "$demo" ledger
started=$SECONDS
hack/demo/data.sh "$SIZE_MIB" | east -n "$demo" exec -i shell -- tar -x -o -f - -C /data
east -n "$demo" exec shell -- sh -c 'echo "In the claim now: $(find /data -type f | wc -l) files, $(du -sm /data | cut -f1) MiB"'
echo "Took $((SECONDS - started)) s"
# A volume that only one node may mount must be free for the agent.
east -n "$demo" delete pod shell --wait >/dev/null

say "A policy with prices, so that the cost is reported too, and the Transfer"
show east apply -f hack/demo/compressionpolicy.yaml
sed 's/^/    /' hack/demo/transfer.yaml
show east apply -f hack/demo/transfer.yaml
hack/demo/progress.sh east "$demo" ledger
compress_seconds=$(east -n "$demo" get transfer ledger -o jsonpath='{.status.usage.send.compressSeconds}')

say "What an operator sees"
show east -n "$demo" get transfers -o wide
show west -n "$demo" get deliveries -o wide
show east get nodeprofiles
say "The whole status"
east -n "$demo" get transfer ledger -o yaml | sed -n '/^status:/,$p'

say "Proof by other means than our agent: sha256 of every file, modes, times and links, read by shells in both clusters"
shell east "$demo" ledger
shell west "$demo" ledger-copy
hack/demo/proof.sh "$demo" east/shell west/shell
for cluster in east west; do "$cluster" -n "$demo" delete pod shell --wait >/dev/null; done

if [ -n "${OBJECTSTORE_ENDPOINT:-}" ]; then
  hack/demo/objectstore.sh "$demo"
else
  say "No object store: the claim is not archived. docs/how-to/demo.md lists the variables that name one"
fi

say "What it cost: in east by CPU time, network and peer; in west what its nodes spent on receiving"
# billed CLUSTER KIND: the Statement of the namespace has a row of the kind. The manager books once a minute.
billed() {
  lighterage cost --kubeconfig ".cluster/$1.kubeconfig" -n "$demo" --by kind -o csv | grep -w "$2"
}
wait_until 180 "the Statement of east" billed east Transfer
wait_until 180 "the Statement of west" billed west Delivery
for cluster in east west; do show lighterage cost --kubeconfig ".cluster/$cluster.kubeconfig" -n "$demo"; done
show lighterage cost transfer/ledger --kubeconfig .cluster/east.kubeconfig -n "$demo"

say "The receipt, which both clusters have signed, verified by files alone"
east -n "$demo" wait transfer/ledger --for=condition=ReceiptSigned --timeout=3m >/dev/null
receipts=$(mktemp -d)
trap 'rm -rf "$receipts"' EXIT
lighterage receipt show transfer/ledger --kubeconfig .cluster/east.kubeconfig -n "$demo" -o envelope >"$receipts/receipt.json"
for cluster in east west; do
  lighterage receipt keys --kubeconfig ".cluster/$cluster.kubeconfig" --operator-namespace "$NAMESPACE" >"$receipts/$cluster.json"
done
show lighterage receipt verify "$receipts/receipt.json" --sender-keys "$receipts/east.json" --receiver-keys "$receipts/west.json" \
  --transfer "$demo/ledger"

say "The same run again, asked for by an annotation: nothing changed, so nothing moves"
show east -n "$demo" annotate transfer ledger --overwrite "lighterage.dev/run=$(date +%s)"
request=$(east -n "$demo" get transfer ledger -o 'jsonpath={.metadata.annotations.lighterage\.dev/run}')
wait_until 60 "the second run to start" \
  sh -c "test \"\$('${KUBECTL:-kubectl}' --kubeconfig .cluster/east.kubeconfig -n $demo get transfer ledger -o 'jsonpath={.status.lastRunRequest}')\" = '$request'"
hack/demo/progress.sh east "$demo" ledger
second='{.status.progress.unchangedFiles} of {.status.progress.filesTotal} files were unchanged; {.status.compression.uncompressedBytes} bytes were sent.'
east -n "$demo" get transfer ledger -o jsonpath="$second"
echo
if [ "$(east -n "$demo" get transfer ledger -o jsonpath='{.status.compression.uncompressedBytes}')" != 0 ]; then
  echo "The second run sent data although nothing had changed." >&2
  exit 1
fi

if [ "${LIVE_VOLUME:-}" != 1 ]; then
  say "LIVE_VOLUME=1 adds a second act: a volume that a program writes to without end"
elif [ -z "${SNAPSHOT_STORAGE_CLASS:-}" ]; then
  say "No class of volumes that can be snapshotted: no second act. docs/how-to/demo.md says how to name one"
elif ! east explain transfers.spec.source.copyMethod --api-version=lighterage.dev/v1alpha1 >/dev/null 2>&1; then
  say "Transfers of this version read claims directly only: no second act"
else
  hack/demo/snapshot.sh "$demo"
fi

if [ "${SEVERAL:-}" = 1 ]; then
  hack/demo/several.sh "$demo" "$compress_seconds"
else
  say "SEVERAL=1 adds a third act: one claim to three destinations, compressed once"
fi

say "What to try next"
kubectl=${KUBECTL:-kubectl}
kubectl=${kubectl#"$PWD/"}
cat <<TEXT
  Everything that is known of the Transfer, with events:
    $kubectl --kubeconfig .cluster/east.kubeconfig -n $demo describe transfer ledger
  Why it was compressed as it was, and what other choices would have cost:
    PATH=\$PWD/bin:\$PATH $kubectl lighterage explain transfer/ledger --kubeconfig .cluster/east.kubeconfig -n $demo
  Take the clusters away; what was built stays cached:
    make clusters-down
TEXT
