#!/usr/bin/env bash
# Copyright The Lighterage Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Proves, by other means than the agent, that two claims hold the same: shells in both pods list every file with sha256,
# mode and modification time, every directory with its mode, every link with its target; the lists must be equal.
#   proof.sh NAMESPACE CLUSTER/POD CLUSTER/POD

# shellcheck source=hack/demo/lib.sh
. "$(dirname "$0")/lib.sh"
namespace=$1 source=$2 copy=$3
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# shellcheck disable=SC2016
listing='cd /data &&
  find . -type f -print0 | sort -z | xargs -0 -r sha256sum &&
  find . \( -type f -o -type d \) ! -name . -print0 | sort -z | xargs -0 -r stat -c "%f %Y %n" &&
  find . -type l -print0 | sort -z | xargs -0 -r -n1 sh -c '\''printf "link %s -> %s\n" "$0" "$(readlink "$0")"'\'''

"${source%/*}" -n "$namespace" exec "${source#*/}" -- sh -c "$listing" >"$out/source" &
"${copy%/*}" -n "$namespace" exec "${copy#*/}" -- sh -c "$listing" >"$out/copy"
wait $!

files=$(grep -cE '^[0-9a-f]{64} ' "$out/source" || true)
lines=$(wc -l <"$out/source")
if ! diff -q "$out/source" "$out/copy" >/dev/null; then
  echo "The two sides differ:" >&2
  diff "$out/source" "$out/copy" | head -n 20 >&2
  exit 1
fi
if [ "$files" -eq 0 ]; then
  echo "There are no files at the source: nothing was proven." >&2
  exit 1
fi
echo "Equal: $files files by sha256, $lines lines in all with modes, times and links."
echo "sha256 of the whole list, source in ${source%/*}: $(sha256sum <"$out/source" | cut -c1-64)"
echo "sha256 of the whole list, copy in ${copy%/*}: $(sha256sum <"$out/copy" | cut -c1-64)"
