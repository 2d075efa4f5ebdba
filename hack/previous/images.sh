#!/usr/bin/env bash
# Copyright The Lighterage Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: images.sh [COMMIT]
#
# Builds the images of the previous state, whose commit hack/previous/commit pins unless it is given in full, and pushes
# them to the registry of the local clusters. Prints what a shell evaluates: PREVIOUS_VERSION, the tag of the images,
# and PREVIOUS_CHART, the directory of its chart.
# Its source is unpacked into the cache once.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# shellcheck disable=SC1091
. .cluster/env
commit=${1:-$(<hack/previous/commit)}
version=previous-${commit:0:12}
tree=${XDG_CACHE_HOME:-$HOME/.cache}/lighterage/previous/$commit

if [ ! -d "$tree" ]; then
  git cat-file -e "$commit^{commit}" 2>/dev/null || {
    echo "hack/previous: commit $commit is not in this clone; fetch the whole history: git fetch --unshallow" >&2
    exit 1
  }
  rm -rf "$tree.part"
  mkdir -p "$tree.part"
  git archive "$commit" | tar -x -C "$tree.part"
  mv "$tree.part" "$tree"
fi
run=(go run ./hack/images)
# From 23 November 2026 on the images are built by a module of its own.
if [ -e "$tree/hack/images/go.mod" ]; then run=(go run -C hack/images .); fi
(cd "$tree" && "${run[@]}" -registry "$REGISTRY" -version "$version" -platforms "linux/$(go env GOHOSTARCH)" >&2)
echo "export PREVIOUS_VERSION=$version PREVIOUS_CHART=$tree/charts/lighterage"
