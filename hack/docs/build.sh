#!/usr/bin/env bash
# Copyright The Lighterage Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Builds the site of docs/ into dist/site, and fails on any warning. MkDocs is installed once, as requirements.txt
# says, into ${XDG_CACHE_HOME:-~/.cache}/lighterage.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
command -v python3 >/dev/null || { echo "docs: Python 3 is missing; install it: apt-get install python3 python3-venv" >&2; exit 1; }
digest=$(cat "$here/requirements.txt" <(python3 --version) | sha256sum | cut -c1-12)
venv=${XDG_CACHE_HOME:-$HOME/.cache}/lighterage/mkdocs-$digest

if [ ! -e "$venv/complete" ]; then
	echo "Installing MkDocs into $venv"
	rm -rf "$venv"
	python3 -m venv "$venv" || { echo "docs: Python cannot make an environment; install it: apt-get install python3-venv" >&2; exit 1; }
	"$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes --no-deps -r "$here/requirements.txt"
	touch "$venv/complete"
fi

# What Material for MkDocs says of its own future is no warning about these pages.
export NO_MKDOCS_2_WARNING=1 DISABLE_MKDOCS_2_WARNING=true
"$venv/bin/mkdocs" build --strict --config-file "$here/mkdocs.yml"
echo "Wrote dist/site; open dist/site/index.html"
