#!/usr/bin/env bash
# Copyright The Lighterage Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: build.sh GOARCH
#
# Provides igzip, the deflate part of ISA-L, for GOARCH as a static library and
# prints, as its last line, the prefix that holds it. README.md says why no
# library of the distribution is used.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
arch=${1:?usage: build.sh amd64|arm64}

say() { echo "isa-l: $*" >&2; }
die() { say "$*"; exit 1; }

host=$(uname -m)
case $host in
x86_64) host=amd64 ;;
aarch64) host=arm64 ;;
esac

case $arch in
amd64) triple=x86_64-linux-gnu processor=x86_64 packages="gcc-x86-64-linux-gnu libc6-dev-amd64-cross" ;;
arm64) triple=aarch64-linux-gnu processor=aarch64 packages="gcc-aarch64-linux-gnu libc6-dev-arm64-cross" ;;
*) die "ISA-L is for amd64 and arm64; $arch has no assembly in it" ;;
esac
if [ "$arch" = "$host" ]; then
	cc=${CC:-cc} tools=
	packages="gcc libc6-dev"
else
	cc=$triple-gcc tools=$triple-
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
ensure make make
ensure pkg-config pkg-config
# shellcheck disable=SC2086 # a list of packages
ensure "$cc" $packages
[ "$arch" != amd64 ] || ensure nasm nasm
command -v cargo >/dev/null || ensure cargo cargo

crate=$(sed -n 's/^isal-sys = "=\(.*\)"$/\1/p' "$here/Cargo.toml")
key=$({ cat "$here/Cargo.lock" "$here/build.sh"; "$cc" --version | head -n 1; } | sha256sum | cut -c 1-12)
cache=${LIGHTERAGE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/lighterage}
prefix=$cache/isa-l-$crate-$key/$arch
if [ -e "$prefix/lib/pkgconfig/libisal.pc" ]; then
	echo "$prefix"
	exit
fi

mkdir -p "$(dirname "$prefix")"
work=$(mktemp -d "$prefix.XXXXXX")
trap 'rm -rf "$work"' EXIT

say "fetching the source (isal-sys $crate)"
cargo vendor --quiet --locked --versioned-dirs --manifest-path "$here/Cargo.toml" "$work/vendor" >/dev/null ||
	die "could not fetch isal-sys $crate: cargo needs to reach its registry once"
source=$work/vendor/isal-sys-$crate/isa-l
[ -e "$source/Makefile.unx" ] || die "isal-sys $crate no longer carries ISA-L in isa-l"

# Only what deflates is built. make takes the processor of the machine it runs on
# unless it is told.
variables=(units=igzip host_cpu="$processor" CC="$cc -fPIC" AR="${tools}ar")
if [ "$arch" = arm64 ]; then
	variables+=(arch=aarch64)
else
	variables+=(arch=)
fi

say "building for $arch with $cc"
make -C "$source" -f Makefile.unx -j "$(nproc)" "${variables[@]}" lib isa-l.h >"$work/log" 2>&1 || {
	cat "$work/log" >&2
	die "the build for $arch failed; its output is above"
}

release=$(sed -n 's/^version ?= //p' "$source/make.inc")
root=$work/root
mkdir -p "$root/include/isa-l" "$root/lib/pkgconfig"
# Of its names only those with its prefix stay visible: zlib-ng, which is linked into the same program, has an
# adler32_neon too.
"${tools}ld" -r --whole-archive "$source/bin/isa-l.a" -o "$work/isal.o"
"${tools}objcopy" --wildcard --keep-global-symbol='isal_*' "$work/isal.o"
"${tools}ar" rcs "$root/lib/libisal.a" "$work/isal.o"
cp "$source/isa-l.h" "$root/include/"
cp "$source"/include/*.h "$root/include/isa-l/"
cat >"$root/lib/pkgconfig/libisal.pc" <<EOF
prefix=$prefix

Name: libisal
Description: igzip, the deflate part of ISA-L
Version: $release+${crate#*+}
Cflags: -I\${prefix}/include
Libs: -L\${prefix}/lib -lisal
EOF

# The rename makes the prefix appear whole or not at all. When another build was
# first, its result is the same and ours is dropped.
mv -T "$root" "$prefix" 2>/dev/null || [ -e "$prefix/lib/pkgconfig/libisal.pc" ] ||
	die "could not put the library into $prefix"
echo "$prefix"
