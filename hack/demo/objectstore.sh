#!/usr/bin/env bash
# Copyright The Lighterage Authors.
# SPDX-License-Identifier: Apache-2.0
#
# The last part of the demo's first act: archives the claim ledger of east in a bucket and restores it from there into a
# claim of west, and with HAND_OFF=1 moves it through the bucket into another one; proves that all are equal. The clusters
# share nothing for it but the bucket.
#   objectstore.sh NAMESPACE

# shellcheck source=hack/demo/lib.sh
. "$(dirname "$0")/lib.sh"
demo=$1

# store prints the ObjectStore, with the CA if it is not a public one.
store() {
  local ca='/CABUNDLE/d'
  if [ -n "${OBJECTSTORE_CA_FILE:-}" ]; then ca="s|CABUNDLE|$(base64 -w0 "$OBJECTSTORE_CA_FILE")|"; fi
  sed -e "s|ENDPOINT|$OBJECTSTORE_ENDPOINT|" -e "s|BUCKET|$OBJECTSTORE_BUCKET|" -e "$ca" hack/demo/objectstore.yaml
}

say "The bucket as an ObjectStore of both clusters, which their agents probe"
store | sed -e 's/^/    /' -e 's/\(caBundle: .\{24\}\).*/\1.../'
for cluster in east west; do
  # Keys go through a pipe, for arguments of programs are seen by everybody.
  "$cluster" -n "$demo" create secret generic vault-keys \
    --from-file=lighterage-s3-access-key-id=<(printf %s "$OBJECTSTORE_ACCESS_KEY_ID") \
    --from-file=lighterage-s3-secret-access-key=<(printf %s "$OBJECTSTORE_SECRET_ACCESS_KEY")
  store | "$cluster" -n "$demo" apply -f -
done
for cluster in east west; do
  "$cluster" -n "$demo" wait objectstore/vault --for=condition=Ready --timeout=3m >/dev/null
  show "$cluster" -n "$demo" get objectstore vault
done

say "The claim archived in the bucket: one object for each file, as it is, and an index of modes, times and links"
sed 's/^/    /' hack/demo/archive.yaml
show east -n "$demo" apply -f hack/demo/archive.yaml
hack/demo/progress.sh east "$demo" ledger-to-vault

say "Restored in the other cluster, which has nothing but the bucket to read it from"
sed 's/ledger-copy/ledger-restored/' hack/demo/claim.yaml | west -n "$demo" apply -f -
sed 's/^/    /' hack/demo/restore.yaml
show west -n "$demo" apply -f hack/demo/restore.yaml
hack/demo/progress.sh west "$demo" ledger-from-vault

say "Proof as before, of the source and of what was restored"
shell east "$demo" ledger
shell west "$demo" ledger-restored
hack/demo/proof.sh "$demo" east/shell west/shell
for cluster in east west; do "$cluster" -n "$demo" delete pod shell --wait >/dev/null; done

[ "${HAND_OFF:-}" = 1 ] || exit 0
say "Handed off through the bucket: a relay in west takes up what the sender in east puts, and nothing stays there"
# ferry SEDSCRIPT: an ObjectStore with a prefix of its own.
ferry() { store | sed -e 's/name: vault$/name: ferry/' -e 's/prefix: .*/prefix: lighterage-demo-ferry/' -e "$1"; }
ferry '' | east -n "$demo" apply -f -
ferry 's/^spec:$/spec:\n  handOff: Receive/' | west -n "$demo" apply -f -
east -n "$demo" wait objectstore/ferry --for=condition=Ready --timeout=3m >/dev/null
west -n "$demo" wait objectstore/ferry --for=condition=HandOffReady --timeout=3m >/dev/null
sed 's/ledger-copy/ledger-ferried/' hack/demo/claim.yaml | west -n "$demo" apply -f -
sed -e 's/from-east/from-east-ferried/' -e 's/ledger-copy/ledger-ferried/' hack/demo/peergrant.yaml | west -n "$demo" apply -f -
sed 's/^/    /' hack/demo/handoff.yaml
show east -n "$demo" apply -f hack/demo/handoff.yaml
hack/demo/progress.sh east "$demo" ledger-ferried
shell east "$demo" ledger
shell west "$demo" ledger-ferried
hack/demo/proof.sh "$demo" east/shell west/shell
for cluster in east west; do "$cluster" -n "$demo" delete pod shell --wait >/dev/null; done
