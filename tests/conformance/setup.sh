#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fetch the official conformance suite, and the Node that it needs, into a cache directory, once. Prints that directory.
#
# The directory is in $CODEBOX_TEST_CACHE, by default ~/.cache/codebox-tests. Exit status 77: they cannot be had (no
# network, no npm); the reason is on stderr.
set -eu
cache=${CODEBOX_TEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/codebox-tests}
packages='@modelcontextprotocol/conformance@0.2.0-alpha.12 node@22'

unavailable() {
	echo "$1" >&2
	exit 77
}

command -v npm >/dev/null || unavailable "there is no npm"
mkdir -p "$cache"
exec 9>"$cache/conformance.lock"
flock 9
dir="$cache/conformance"
if [ "$(cat "$dir/.complete" 2>/dev/null)" != "$packages" ]; then
	rm -rf "$dir"
	mkdir "$dir"
	echo '{"private":true,"type":"module"}' >"$dir/package.json"
	# shellcheck disable=SC2086 # one word each
	(cd "$dir" && npm install --silent --no-audit --no-fund --fetch-retries=5 \
		--fetch-retry-mintimeout=2000 --fetch-timeout=60000 $packages) >&2 ||
		unavailable "npm cannot install $packages"
	"$dir/node_modules/.bin/node" --version >&2 || unavailable "the node of npm does not run here"
	echo "$packages" >"$dir/.complete"
fi
echo "$dir"
