#!/usr/bin/env bash
# Copyright The Lighterage Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: ensure-tools.sh NEED...
#
# Provides what each NEED stands for: installs Debian's package when it may, else
# names the command that does. hack/cluster sees to the clusters' own tools.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

die() {
	echo "ensure-tools: $*" >&2
	exit 1
}

# Go must be there, at least as new as the newest that a module of the tree asks for.
need_go() {
	local want have
	want=$(sed -n 's/^go //p' "$root"/go.mod "$root"/hack/tools/go.mod "$root"/hack/tools/*/go.mod | sort -V | tail -n 1)
	command -v go >/dev/null || die "Go is missing; install $want or newer from https://go.dev/dl/ and put it into PATH"
	have=$(go env GOVERSION) && have=${have#go}
	if [ "$(printf '%s\n' "$want" "${have%% *}" | sort -V | head -n 1)" != "$want" ] && [ "$(go env GOTOOLCHAIN)" = local ]; then
		die "Go $want or newer is needed and this is $have; install it from https://go.dev/dl/, or let Go fetch it: export GOTOOLCHAIN=auto"
	fi
}

missing=()

# want COMMAND PACKAGE... notes the packages when the command is not there.
want() {
	local command=$1
	shift
	command -v "$command" >/dev/null || missing+=("$@")
}

for need in "$@"; do
	case $need in
	go) need_go ;;
	c) want gcc gcc libc6-dev ;;
	engines) # what hack/zlib-ng, hack/isa-l and hack/zstd build with
		want gcc gcc libc6-dev
		want make make
		want cmake cmake
		want ninja ninja-build
		want nasm nasm
		want pkg-config pkg-config
		want cargo cargo
		;;
	python) # with which programs in Python are installed into an environment of their own
		python3 -c 'import ensurepip' 2>/dev/null || missing+=(python3 python3-venv)
		;;
	s390x) want s390x-linux-gnu-gcc gcc-s390x-linux-gnu libc6-dev-s390x-cross ;;
	arm64) [ "$(uname -m)" = aarch64 ] || want aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu libc6-dev-arm64-cross ;;
	amd64) [ "$(uname -m)" = x86_64 ] || want x86_64-linux-gnu-gcc gcc-x86-64-linux-gnu libc6-dev-amd64-cross ;;
	qemu) want qemu-s390x-static qemu-user-static ;;
	git) want git git ;;
	openssl) want openssl openssl ;;
	movers)
		want rsync rsync
		want stunnel stunnel4
		want igzip isal
		want socat socat
		;;
	wan) # what bench-wan compares with, but for sshd: its package would open this machine to logins
		want rsync rsync
		want stunnel stunnel4
		want socat socat
		want ss iproute2
		want ip iproute2
		;;
	network) # namespaces whose networks have a speed
		want ip iproute2
		want tc iproute2
		want taskset util-linux
		;;
	faults) # namespaces whose networks are parted
		want ip iproute2
		want iptables iptables
		want nsenter util-linux
		want unshare util-linux
		;;
	disks) # file systems of a benchmark's own
		want losetup mount
		want mkfs.ext4 e2fsprogs
		;;
	btrfs) # volumes that can be snapshotted
		want mkfs.btrfs btrfs-progs
		want mkfs.ext4 e2fsprogs
		want resize2fs e2fsprogs
		;;
	browser) # in which the console is tested
		want chromium chromium
		fc-list 2>/dev/null | grep -q LiberationSans || missing+=(fonts-liberation fontconfig)
		want npm npm
		;;
	brokers) want rabbitmq-server rabbitmq-server ;; # what bench-queue compares with
	peers) # what bench-codec compares with
		want igzip isal
		want pigz pigz
		want zstd zstd
		;;
	readers) # what test-cargo has read its files
		want igzip isal
		want pigz pigz
		want zstd zstd
		want age age
		want bsdcat libarchive-tools
		want curl curl
		want nginx nginx-light
		want python3 python3
		want node nodejs
		want javac default-jdk-headless
		;;
	prometheus) # of which only the programs are used, not the service
		want prometheus prometheus
		want promtool prometheus
		;;
	proxies) # what bench-http compares with, and makes load with
		want nginx nginx-light
		want haproxy haproxy
		want wrk wrk
		want h2load nghttp2-client
		;;
	*) die "unknown need '$need'" ;;
	esac
done

[ ${#missing[@]} -gt 0 ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
	die "missing: ${missing[*]}; on Debian: sudo apt-get install -y --no-install-recommends ${missing[*]}"
fi
echo "ensure-tools: installing ${missing[*]}" >&2
export DEBIAN_FRONTEND=noninteractive
# Another apt-get may be at work, and one that was killed may have left packages half configured.
install() { apt-get -o DPkg::Lock::Timeout=300 install -y -q --no-install-recommends "${missing[@]}" >&2; }
install || { dpkg --configure -a >&2; install; } || { apt-get update -q >&2 && install; } || die "could not install ${missing[*]}; apt-get's messages are above"
