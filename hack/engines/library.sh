# Copyright The Lighterage Authors.
# SPDX-License-Identifier: Apache-2.0
#
# For the build.sh of a compression library, which sources it after it has set
#
#	name   of the library, as messages and the cache call it
#	here   its directory, with the Cargo.toml and Cargo.lock that pin the source
#	arch   the GOARCH to build for
#
# It sets host, triple, processor, cc and tools (the prefix of binutils' programs),
# and has a function for each step that all builds share.
# shellcheck shell=bash disable=SC2034,SC2154 # variables cross files

say() { echo "$name: $*" >&2; }
die() { say "$*"; exit 1; }

host=$(uname -m)
case $host in
x86_64) host=amd64 ;;
aarch64) host=arm64 ;;
esac

case $arch in
amd64) processor=x86_64 triple=x86_64-linux-gnu packages="gcc-x86-64-linux-gnu libc6-dev-amd64-cross" ;;
arm64) processor=aarch64 triple=aarch64-linux-gnu packages="gcc-aarch64-linux-gnu libc6-dev-arm64-cross" ;;
s390x) processor=s390x triple=s390x-linux-gnu packages="gcc-s390x-linux-gnu libc6-dev-s390x-cross" ;;
*) die "no build for GOARCH=$arch: use amd64, arm64 or s390x" ;;
esac
if [ "$arch" = "$host" ]; then
	cc=${CC:-cc} tools= packages="gcc libc6-dev"
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

# ensure_toolchain installs what every build needs, or says how to.
ensure_toolchain() {
	ensure pkg-config pkg-config
	# shellcheck disable=SC2086 # a list of packages
	ensure "$cc" $packages
	command -v cargo >/dev/null || ensure cargo cargo
}

# begin VERSION LIBRARY [FLAGS [FILE...]] sets prefix, and ends the script with it when it
# holds LIBRARY, by pkg-config's name, already. What the output depends on is in its name: the
# pinned source, the scripts, the compiler, flags and files. Else it sets work, a directory for the build.
begin() {
	local version=$1 flags=${3:-} cache=${LIGHTERAGE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/lighterage} key
	module=$2
	shift $(($# < 3 ? $# : 3))
	key=$({ cat "$here/Cargo.lock" "$here/build.sh" "${BASH_SOURCE[0]}" "$@"; "$cc" --version | head -n 1; echo "$flags"; } | sha256sum | cut -c 1-12)
	prefix=$cache/$name-$version-$key/$arch
	if built; then
		echo "$prefix"
		exit
	fi
	mkdir -p "$(dirname "$prefix")"
	work=$(mktemp -d "$prefix.XXXXXX")
	trap 'rm -rf "$work"' EXIT
}

built() { [ -e "$prefix/lib/pkgconfig/$module.pc" ]; }

# vendor CRATE VERSION DIR FILE fetches a crate that carries the library's source, checked against
# Cargo.lock, and sets source to its directory DIR, which must hold FILE.
vendor() {
	say "fetching the source ($1 $2)"
	cargo vendor --quiet --locked --versioned-dirs --manifest-path "$here/Cargo.toml" "$work/vendor" >/dev/null ||
		die "could not fetch $1 $2: cargo needs to reach its registry once"
	source=$work/vendor/$1-$2/$3
	[ -e "$source/$4" ] || die "$1 $2 no longer carries $name in $3"
}

# compile COMMAND... runs a build, of which nothing is seen unless it fails.
compile() {
	say "building for $arch with $cc"
	"$@" >"$work/log" 2>&1 || {
		cat "$work/log" >&2
		die "the build for $arch failed; its output is above"
	}
}

# finish ROOT puts what was built into its place and prints the prefix. The rename makes it
# appear whole or not at all: when another build was first, its result is the same and this one is dropped.
finish() {
	mv -T "$1" "$prefix" 2>/dev/null || built || die "could not put the library into $prefix"
	echo "$prefix"
}
