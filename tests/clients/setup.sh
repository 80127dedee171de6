#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fetch the official MCP client libraries into a cache directory, once. Prints that directory.
#
#   setup.sh python|node
#
# The directory is $CODEBOX_TEST_CACHE, by default ~/.cache/codebox-tests. Exit status 77: they cannot be had (no
# network, no pip, no npm); the reason is on stderr.
set -eu
cache=${CODEBOX_TEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/codebox-tests}
python_packages='mcp>=2.3,<3 jsonschema>=4.20,<5'
node_packages='@modelcontextprotocol/sdk@^1.29 ajv@^8'

unavailable() {
	echo "$1" >&2
	exit 77
}

mkdir -p "$cache"
exec 9>"$cache/$1.lock"
flock 9
case $1 in
python)
	stamp="$cache/python/.complete"
	if [ "$(cat "$stamp" 2>/dev/null)" != "$python_packages" ] || ! "$cache/python/bin/python3" -c '' 2>/dev/null; then
		rm -rf "$cache/python"
		python3 -m venv "$cache/python" >&2 ||
			unavailable "python3 cannot make a virtual environment (python3-venv)"
		# shellcheck disable=SC2086 # one word each
		"$cache/python/bin/pip" install --quiet --disable-pip-version-check --retries 1 --timeout 20 \
			$python_packages >&2 || unavailable "pip cannot install $python_packages"
		echo "$python_packages" >"$stamp"
	fi
	echo "$cache/python"
	;;
node)
	stamp="$cache/node/.complete"
	command -v npm >/dev/null || unavailable "there is no npm"
	if [ "$(cat "$stamp" 2>/dev/null)" != "$node_packages" ]; then
		rm -rf "$cache/node"
		mkdir "$cache/node"
		echo '{"private":true,"type":"module"}' >"$cache/node/package.json"
		# shellcheck disable=SC2086
		(cd "$cache/node" && npm install --silent --no-audit --no-fund --fetch-retries=1 --fetch-timeout=20000 \
			$node_packages) >&2 || unavailable "npm cannot install $node_packages"
		echo "$node_packages" >"$stamp"
	fi
	echo "$cache/node"
	;;
*)
	echo "usage: setup.sh python|node" >&2
	exit 2
	;;
esac
