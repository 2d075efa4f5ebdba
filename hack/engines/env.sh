#!/usr/bin/env bash
# Copyright The Lighterage Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: env=$(env.sh [--all] GOARCH) && eval "$env" && go build -tags "$LIGHTERAGE_TAGS" ...
#
# Prints the environment of a build for GOARCH with the compression engines that
# are written in C: Go's variables, the C compiler, where pkg-config finds the
# libraries (built first when the cache lacks them), LIGHTERAGE_TAGS, the build
# tags of the engines that there are, and LIGHTERAGE_LIBRARIES, a list of
# NAME@VERSION.
#
# An engine whose library cannot be had is left out, and standard error says which
# and why; Go's own engines take its place. With --all that is an error.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

all=
[ "${1:-}" != --all ] || { all=yes; shift; }
arch=${1:?usage: env.sh [--all] amd64|arm64|s390x}

say() { echo "engines: $*" >&2; }

# Build tag, directory in hack/ with a build.sh that prints a prefix, and
# pkg-config's name of the library.
case $arch in
amd64 | arm64) engines="zlibng:zlib-ng:zlib-ng isal:isa-l:libisal libzstd:zstd:libzstd" ;;
s390x) engines="zlibng:zlib-ng:zlib-ng libzstd:zstd:libzstd" ;; # ISA-L has no assembly for it
*) say "no engines for GOARCH=$arch: use amd64, arm64 or s390x"; exit 1 ;;
esac

# What is missing is installed here once, or named; each build.sh then sees for itself.
"$root/hack/ensure-tools.sh" engines "$arch" >&2 || [ -z "$all" ]

tags=() libraries=() prefixes=
# What this script put into the search path earlier may be an older library.
path=$(tr : '\n' <<<"${PKG_CONFIG_PATH:-}" | grep -vE '/(zlib-ng|isa-l|zstd)-[^/]*/[^/]*/lib/pkgconfig$' | paste -sd :) || true
for engine in $engines; do
	IFS=: read -r tag name library <<<"$engine"
	if ! prefix=$("$root/hack/$name/build.sh" "$arch" | tail -n 1); then
		say "building for $arch without $name, for the reason above"
		[ -z "$all" ] || exit 1
		continue
	fi
	tags+=("$tag")
	prefixes+="$tag ${prefix#"${prefix%/*/*}"/} "
	# A prefix without the file is that of the distribution, where pkg-config looks anyway.
	ours=$prefix/lib/pkgconfig
	[ ! -e "$ours/$library.pc" ] || path=$ours${path:+:$path}
	libraries+=("$name@$(PKG_CONFIG_PATH=$path pkg-config --modversion "$library")")
done

join() { local IFS=$1; shift; echo "$*"; }
printf 'export LIGHTERAGE_TAGS=%q\n' "$(join , ${tags[@]+"${tags[@]}"})"
printf 'export LIGHTERAGE_LIBRARIES=%q\n' "$(join ' ' ${libraries[@]+"${libraries[@]}"})"
[ -z "$path" ] || printf 'export PKG_CONFIG_PATH=%q\n' "$path"
# Go keeps what it compiled until the sources or the flags change, and what pkg-config says is neither: without a
# flag that names the libraries, a build would go on linking those of the last one.
flags=$(sed 's/ *-DLIGHTERAGE_LIBRARIES=[^ ]*//' <<<"${CGO_CPPFLAGS:-}")
printf 'export CGO_CPPFLAGS=%q\n' "${flags:+$flags }-DLIGHTERAGE_LIBRARIES=$(sha256sum <<<"$prefixes" | cut -c 1-12)"
echo "export GOOS=linux GOARCH=$arch"
[ ${#tags[@]} = 0 ] || echo "export CGO_ENABLED=1"
case $arch-$(uname -m) in
amd64-x86_64 | arm64-aarch64 | s390x-s390x) ;;
amd64-*) echo "export CC=x86_64-linux-gnu-gcc" ;;
arm64-*) echo "export CC=aarch64-linux-gnu-gcc" ;;
s390x-*) echo "export CC=s390x-linux-gnu-gcc" ;;
esac
