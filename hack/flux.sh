#!/usr/bin/env bash
# Copyright The Lighterage Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: env=$(flux.sh) && eval "$env"
#
# Builds Flux's source-controller and kustomize-controller as hack/flux/go.mod pins them, once, in
# ${XDG_CACHE_HOME:-~/.cache}/lighterage, and prints where they and the definitions of their kinds are.
set -euo pipefail

module=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/flux
sum=$(cat "$module/go.mod" "$module/go.sum" | sha256sum)
bin=${XDG_CACHE_HOME:-$HOME/.cache}/lighterage/flux-${sum:0:12}

if [ ! -x "$bin/source-controller" ] || [ ! -x "$bin/kustomize-controller" ]; then
	echo "Building Flux's controllers, which takes some minutes" >&2
	mkdir -p "$bin"
	(cd "$module" && CGO_ENABLED=0 go build -trimpath -o "$bin/" tool) >&2
fi
crds=
for controller in source-controller kustomize-controller; do
	crds+=$(cd "$module" && go list -m -f '{{.Dir}}' "github.com/fluxcd/$controller")/config/crd/bases:
done
echo "export LIGHTERAGE_FLUX='$bin' LIGHTERAGE_FLUX_CRDS='${crds%:}'"
