#!/usr/bin/env bash
# Copyright The Lighterage Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: env=$(axe.sh) && eval "$env"
#
# Fetches axe-core, which checks the accessibility of pages in tests, once, into ${XDG_CACHE_HOME:-~/.cache}/lighterage,
# and prints where it is. Its licence is MPL-2.0. Nothing that is shipped has it or needs it.
set -euo pipefail

version=4.14.0
sum=20c09fe157a8a34a30e241aaa1fcdade657734f08ab379ecfbeb7d45cc46e878
cache=${XDG_CACHE_HOME:-$HOME/.cache}/lighterage/axe-core-$version

if [ ! -e "$cache/axe.min.js" ]; then
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	(cd "$work" && npm pack --silent --ignore-scripts "axe-core@$version") >&2
	tar -xzf "$work/axe-core-$version.tgz" -C "$work" package/axe.min.js package/LICENSE
	echo "$sum  $work/package/axe.min.js" | sha256sum --check --quiet >&2
	mkdir -p "$cache"
	cp "$work/package/LICENSE" "$work/package/axe.min.js" "$cache/"
fi
echo "export LIGHTERAGE_AXE='$cache/axe.min.js'"
