#!/usr/bin/env bash
# Copyright The Lighterage Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Prints the arguments with which `go test` runs every test that docs/operations/threat-model.md names as a proof, but those in
# test/security, which have a run of their own: -run, a pattern and the packages. Fails if one of them does not exist.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

model=docs/operations/threat-model.md
# shellcheck disable=SC2016  # backquotes of Markdown
named=$(grep -oE '`(Test|Fuzz)[A-Za-z0-9]+`' "$model" | tr -d '`' | sort -u)
# Lines of package and test.
declared=$(grep -rE --include='*_test.go' -o '^func (Test|Fuzz)[A-Za-z0-9_]+' agent api controllers test/chart test/security | sed 's!/[^/]*:func ! !')
missing=$(comm -23 <(echo "$named") <(cut -d' ' -f2 <<<"$declared" | sort -u))
[ -z "$missing" ] || { printf '%s names what is no test of agent, api, controllers, test/chart or test/security:\n%s\n' "$model" "$missing" >&2; exit 1; }

echo "-run ^($(paste -sd'|' <<<"$named"))\$"
awk 'NR == FNR { named[$1]; next } $2 in named && $1 != "test/security" { print "./" $1 }' <(echo "$named") <(echo "$declared") | sort -u
