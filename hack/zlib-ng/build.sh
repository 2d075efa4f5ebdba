#!/usr/bin/env bash
# Copyright The Lighterage Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: build.sh GOARCH
#
# Provides zlib-ng's native API for GOARCH as a static library and prints, as its
# last line, the prefix that holds it. README.md says which library is chosen.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
arch=${1:?usage: build.sh amd64|arm64|s390x}

say() { echo "zlib-ng: $*" >&2; }
die() { say "$*"; exit 1; }

# The oldest zlib-ng whose native API the Go binding is written for.
oldest=2.2.0

host=$(uname -m)
case $host in
x86_64) host=amd64 ;;
aarch64) host=arm64 ;;
esac

case $arch in
amd64) triple=x86_64-linux-gnu processor=x86_64 packages="gcc libc6-dev" ;;
arm64) triple=aarch64-linux-gnu processor=aarch64 packages="gcc-aarch64-linux-gnu libc6-dev-arm64-cross" ;;
s390x) triple=s390x-linux-gnu processor=s390x packages="gcc-s390x-linux-gnu libc6-dev-s390x-cross" ;;
*) die "no build for GOARCH=$arch: use amd64, arm64 or s390x" ;;
esac
if [ "$arch" = "$host" ]; then
	cc=${CC:-cc}
	packages="gcc libc6-dev"
else
	cc=$triple-gcc
fi

# What hack/engines/env.sh put into the search path earlier is ours, not the distribution's.
PKG_CONFIG_PATH=$(tr : '\n' <<<"${PKG_CONFIG_PATH:-}" | grep -v '/zlib-ng-[^/]*/[^/]*/lib/pkgconfig$' | paste -sd :) || true
export PKG_CONFIG_PATH

# For a sanitizer: it goes into the key below, so such a build is one of its own.
extra=${LIGHTERAGE_ZLIBNG_CFLAGS:-}

# A library of the distribution serves when it is new enough and static. On s390x
# it does not: which levels reach the accelerator is fixed when it is compiled.
if [ "${LIGHTERAGE_ZLIBNG:-}" != bundled ] && [ -z "$extra" ] && [ "$arch" = "$host" ] && [ "$arch" != s390x ] &&
	command -v pkg-config >/dev/null && pkg-config --atleast-version="$oldest" zlib-ng 2>/dev/null &&
	[ -e "$(pkg-config --variable=libdir zlib-ng)/libz-ng.a" ]; then
	say "using the system's $(pkg-config --modversion zlib-ng)"
	pkg-config --variable=prefix zlib-ng
	exit
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
ensure cmake cmake
ensure ninja ninja-build
ensure pkg-config pkg-config
# shellcheck disable=SC2086 # a list of packages
ensure "$cc" $packages
command -v cargo >/dev/null || ensure cargo cargo

crate=$(sed -n 's/^libz-ng-sys = "=\(.*\)"$/\1/p' "$here/Cargo.toml")
key=$({ cat "$here/Cargo.lock" "$here/build.sh" "$here"/dfltcc_witness.*; "$cc" --version | head -n 1; echo "$extra"; } | sha256sum | cut -c 1-12)
cache=${LIGHTERAGE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/lighterage}
prefix=$cache/zlib-ng-$crate-$key/$arch
if [ -e "$prefix/lib/pkgconfig/zlib-ng.pc" ]; then
	echo "$prefix"
	exit
fi

mkdir -p "$(dirname "$prefix")"
work=$(mktemp -d "$prefix.XXXXXX")
trap 'rm -rf "$work"' EXIT

say "fetching the source (libz-ng-sys $crate)"
cargo vendor --quiet --locked --versioned-dirs --manifest-path "$here/Cargo.toml" "$work/vendor" >/dev/null ||
	die "could not fetch libz-ng-sys $crate: cargo needs to reach its registry once"
source=$work/vendor/libz-ng-sys-$crate/src/zlib-ng
[ -e "$source/CMakeLists.txt" ] || die "libz-ng-sys $crate no longer carries zlib-ng in src/zlib-ng"

options=(
	-DCMAKE_BUILD_TYPE=Release
	-DCMAKE_C_COMPILER="$cc"
	-DCMAKE_PROJECT_zlib_INCLUDE="$here/dfltcc_witness.cmake"
	-DCMAKE_POSITION_INDEPENDENT_CODE=ON
	-DCMAKE_INSTALL_PREFIX="$prefix"
	-DCMAKE_INSTALL_LIBDIR=lib
	-DBUILD_SHARED_LIBS=OFF
	-DBUILD_TESTING=OFF
	-DZLIB_COMPAT=OFF
	-DWITH_GZFILEOP=OFF
)
[ "$arch" = "$host" ] || options+=(-DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR="$processor")
# Every level but 0 may use the accelerator; upstream's default is level 1 alone. And
# it gets a table of codes made for the data from a stream's first byte: upstream's
# default is fixed codes for the first call, and a block here is one call.
[ "$arch" = s390x ] && options+=(
	-DWITH_DFLTCC_DEFLATE=ON
	-DWITH_DFLTCC_INFLATE=ON
)
flags=$extra
[ "$arch" = s390x ] && flags="-DDFLTCC_LEVEL_MASK=0x3fe -DDFLTCC_FIRST_FHT_BLOCK_SIZE=0${extra:+ $extra}"
options+=(-DCMAKE_C_FLAGS="$flags")

say "building for $arch with $cc"
{
	cmake -G Ninja -S "$source" -B "$work/build" "${options[@]}" &&
		DESTDIR=$work/root cmake --build "$work/build" --target install
} >"$work/log" 2>&1 || {
	cat "$work/log" >&2
	die "the build for $arch failed; its output is above"
}

# The rename makes the prefix appear whole or not at all. When another build was
# first, its result is the same and ours is dropped.
mv -T "$work/root$prefix" "$prefix" 2>/dev/null || [ -e "$prefix/lib/pkgconfig/zlib-ng.pc" ] ||
	die "could not put the library into $prefix"
echo "$prefix"
