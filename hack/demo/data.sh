#!/usr/bin/env bash
# Copyright The Lighterage Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Writes a tar stream of real data found on this machine to standard output: sources of Go modules, system libraries and
# logs, at least $1 MiB in thousands of files, a third of it from one place at most, only what everybody may read. Says on
# standard error what it took.

set -euo pipefail
want=$((${1:?MiB} * 1048576))
modules=$(go env GOMODCACHE)
taken=0
list=$(mktemp)
trap 'rm -f "$list"' EXIT

# take DIR [FIND ARGUMENTS]: adds the regular files and symbolic links of DIR to the list while there is not enough, up to
# a third of all.
take() {
  local dir=$1 size files=0
  shift
  if [ ! -d "$dir" ] || [ "$taken" -ge "$want" ]; then return 0; fi
  local part
  part=$(mktemp)
  find "$dir" -xdev \( -type f -o -type l \) "$@" -readable -perm -o=r -printf '%s\t%p\n' 2>/dev/null |
    awk -F'\t' -v have="$taken" -v want="$want" 'have < want && part < want / 3 { have += $1; part += $1; print }' >"$part"
  size=$(awk -F'\t' '{ s += $1 } END { print s + 0 }' "$part")
  files=$(wc -l <"$part")
  cut -f2- "$part" >>"$list"
  rm -f "$part"
  taken=$((taken + size))
  echo "  $files files, $((size / 1048576)) MiB from $dir" >&2
}

take /var/log
take "$modules/k8s.io"
take /usr/lib/"$(uname -m)"-linux-gnu -name '*.so*'
take "$(go env GOROOT)/src"
take "$modules/sigs.k8s.io"
take "$modules/google.golang.org"
take "$modules/golang.org"
take "$modules/github.com"
take /usr/share
take /usr/lib

if [ "$taken" -lt "$want" ]; then
  echo "Found only $((taken / 1048576)) MiB of data on this machine; going on with that." >&2
fi
tar --create --no-recursion --files-from="$list" --transform='s,^/*,,' --absolute-names --ignore-failed-read \
  --mode='u+rwX,go+rX' --warning=no-file-changed --warning=no-file-removed --warning=no-file-ignored || [ $? -eq 1 ]
