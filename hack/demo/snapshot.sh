#!/usr/bin/env bash
# Copyright The Lighterage Authors.
# SPDX-License-Identifier: Apache-2.0
#
# The demo's second act: a program in east never stops writing three files, one after the other. Moved directly they are of
# different moments at the destination; moved by a snapshot they are of one.
#   snapshot.sh NAMESPACE

# shellcheck source=hack/demo/lib.sh
. "$(dirname "$0")/lib.sh"
demo=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# copy_to_west METHOD: moves the claim journal to the claim of that method, and keeps what arrived in $work/METHOD.
copy_to_west() {
  local method=$1 name=journal-${1,,} complete=0
  sed "s/ledger-copy/$name/" hack/demo/claim.yaml | west -n "$demo" apply -f - >/dev/null
  sed -e "s|METHOD|$method|" -e "s|NAME|$name|" hack/demo/journal-transfer.yaml >"$work/transfer.yaml"
  show east -n "$demo" apply -f "$work/transfer.yaml"
  hack/demo/progress.sh east "$demo" "$name" || complete=$?
  shell west "$demo" "$name"
  rm -rf "${work:?}/$method"
  mkdir "$work/$method"
  # Those of the three files that are there.
  # shellcheck disable=SC2016
  west -n "$demo" exec shell -- sh -c 'cd /data && tar -cf - $(ls | grep -x "[abc]")' | tar -xf - -C "$work/$method"
  west -n "$demo" delete pod shell --wait >/dev/null
  return "$complete"
}

say "A program that never stops writing: in each round it replaces file a, then b, then c, each safe on the volume before the next"
CGO_ENABLED=0 go build -o bin/moment ./hack/moment
sed -e "s|CLASS|$SNAPSHOT_STORAGE_CLASS|" -e "s|IMAGE|$(busybox_image)|" hack/demo/journal.yaml | east -n "$demo" apply -f -
east -n "$demo" wait pod/writer --for=condition=Ready --timeout=3m >/dev/null
architecture=$(east get nodes -o 'jsonpath={.items[0].status.nodeInfo.architecture}')
CGO_ENABLED=0 GOOS=linux GOARCH=$architecture go build -ldflags '-s -w' -o "$work/moment" ./hack/moment
east -n "$demo" exec -i writer -- sh -c 'cat >/program/moment && chmod 755 /program/moment && touch /program/ready' <"$work/moment"
wait_until 60 "the writer" east -n "$demo" exec writer -- test -e /data/c
west apply -f hack/demo/journal-peergrant.yaml

say "Moved directly, while it writes"
# What changes in the moment in which it is read fails the run, and chance may make a copy whole: a few attempts.
torn=
for _ in 1 2 3; do
  # Between b and c, so that moving takes longer than a round; many files, since small ones that follow each other are
  # read together.
  east -n "$demo" exec writer -- sh -c \
    'rm -rf /data/bulk; mkdir /data/bulk; for i in $(seq 80); do head -c 800000 /dev/urandom >/data/bulk/$i; done'
  copy_to_west Direct || echo "The run could not read a file that kept changing."
  if ! show bin/moment check "$work/Direct"; then torn=true; break; fi
  east -n "$demo" delete transfer journal-direct --timeout=3m >/dev/null
done
if [ -z "$torn" ]; then
  echo "Three direct copies were of one moment each: the writer does not show what it should." >&2
  exit 1
fi

say "Moved by a snapshot of the claim, which is taken when the run begins and removed when it ends"
copy_to_west Snapshot
show bin/moment check "$work/Snapshot"
show east -n "$demo" get volumesnapshots
say "The writer has gone on meanwhile"
east -n "$demo" exec writer -- cat /data/a
east -n "$demo" delete pod writer --wait >/dev/null
