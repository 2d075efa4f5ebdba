#!/usr/bin/env bash
# Copyright The Lighterage Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: build.sh GOARCH
#
# Provides libzstd for GOARCH as a static library and prints, as its last line,
# the prefix that holds it. README.md says where it comes from.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
arch=${1:?usage: build.sh amd64|arm64|s390x}

say() { echo "zstd: $*" >&2; }
die() { say "$*"; exit 1; }

host=$(uname -m)
case $host in
x86_64) host=amd64 ;;
aarch64) host=arm64 ;;
esac

case $arch in
amd64) triple=x86_64-linux-gnu packages="gcc-x86-64-linux-gnu libc6-dev-amd64-cross" ;;
arm64) triple=aarch64-linux-gnu packages="gcc-aarch64-linux-gnu libc6-dev-arm64-cross" ;;
s390x) triple=s390x-linux-gnu packages="gcc-s390x-linux-gnu libc6-dev-s390x-cross" ;;
*) die "no build for GOARCH=$arch: use amd64, arm64 or s390x" ;;
esac
if [ "$arch" = "$host" ]; then
	cc=${CC:-cc} ar=ar
	packages="gcc libc6-dev"
else
	cc=$triple-gcc ar=$triple-ar
fi

# ensure COMMAND PACKAGE... installs the Debian packages that bring COMMAND, or
# says how to.
ensure() {
	local command=$1
	shift
	command -v "$command" >/dev/null && return
	if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
		say "installing $*"
		DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >&2 ||
			die "could not install $*: run 'apt-get update' and try again"
	else
		die "'$command' is missing; on Debian: sudo apt-get install -y $*"
	fi
}
ensure pkg-config pkg-config
# shellcheck disable=SC2086 # a list of packages
ensure "$cc" $packages
command -v cargo >/dev/null || ensure cargo cargo

# Of the formats older than the standard none is read. One thread works on a
# block; the agent runs several blocks at once.
flags=(-O3 -fPIC -DNDEBUG -DZSTD_LEGACY_SUPPORT=0 -DXXH_NAMESPACE=ZSTD_)
# For a sanitizer: it goes into the key below, so such a build is one of its own.
extra=${LIGHTERAGE_ZSTD_CFLAGS:-}

full=$(sed -n '/^name = "zstd-sys"$/{n;s/^version = "\(.*\)"$/\1/p;}' "$here/Cargo.lock")
version=${full#*+zstd.}
key=$({ cat "$here/Cargo.lock" "$here/build.sh"; "$cc" --version | head -n 1; echo "$extra"; } | sha256sum | cut -c 1-12)
cache=${LIGHTERAGE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/lighterage}
prefix=$cache/zstd-$version-$key/$arch
if [ -e "$prefix/lib/pkgconfig/libzstd.pc" ]; then
	echo "$prefix"
	exit
fi

mkdir -p "$(dirname "$prefix")"
work=$(mktemp -d "$prefix.XXXXXX")
trap 'rm -rf "$work"' EXIT

say "fetching the source (zstd-sys $full)"
cargo vendor --quiet --locked --versioned-dirs --manifest-path "$here/Cargo.toml" "$work/vendor" >/dev/null ||
	die "could not fetch zstd-sys $full: cargo needs to reach its registry once"
source=$work/vendor/zstd-sys-$full/zstd/lib
[ -e "$source/zstd.h" ] || die "zstd-sys $full no longer carries zstd in zstd/lib"

say "building $version for $arch with $cc"
mkdir -p "$work/objects" "$work/root/include" "$work/root/lib/pkgconfig"
compile() {
	# shellcheck disable=SC2086 # a list of flags
	printf '%s\0' "$source"/{common,compress,decompress}/*.c "$source"/decompress/*.S |
		xargs -0 -P "$(nproc)" -I FILE sh -c 'object=$1/$(basename "$2").o; shift 2; exec "$@" -o "$object"' - \
			"$work/objects" FILE "$cc" "${flags[@]}" $extra -c FILE
	"$ar" rcs "$work/root/lib/libzstd.a" "$work/objects"/*.o
}
compile >"$work/log" 2>&1 || {
	cat "$work/log" >&2
	die "the build for $arch failed; its output is above"
}
cp "$source/zstd.h" "$source/zstd_errors.h" "$work/root/include/"
cat >"$work/root/lib/pkgconfig/libzstd.pc" <<EOF
prefix=$prefix
Name: libzstd
Description: Zstandard, static
Version: $version
Libs: -L\${prefix}/lib -lzstd
Cflags: -I\${prefix}/include
EOF

# The rename makes the prefix appear whole or not at all. When another build was
# first, its result is the same and ours is dropped.
mv -T "$work/root" "$prefix" 2>/dev/null || [ -e "$prefix/lib/pkgconfig/libzstd.pc" ] ||
	die "could not put the library into $prefix"
echo "$prefix"
