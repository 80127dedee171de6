#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fetch official MCP clients and tools into a cache directory, once. Prints that directory.
#
#   setup.sh python|node|node22|fastmcp|langchain|kernel
#
# python    the Python SDK
# node      the TypeScript SDK, series 1
# node22    Node 22, and what needs it: the TypeScript SDK, series 2; the MCP Inspector; the tool for MCPB bundles
# fastmcp   the client of fastmcp
# langchain langchain-mcp-adapters, which want series 1 of the Python SDK
# kernel    an IPython kernel and its client, for the benchmarks
#
# The directory is $CODEBOX_TEST_CACHE, by default ~/.cache/codebox-tests. Exit status 77: they cannot be had (no
# network, no pip, no npm); the reason is on stderr.
set -eu
cache=${CODEBOX_TEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/codebox-tests}

unavailable() {
	echo "$1" >&2
	exit 77
}

# with_pip NAME PACKAGE...: a virtual environment
with_pip() {
	name=$1
	shift
	if [ "$(cat "$cache/$name/.complete" 2>/dev/null)" != "$*" ] || ! "$cache/$name/bin/python3" -c '' 2>/dev/null; then
		rm -rf "${cache:?}/$name"
		python3 -m venv "$cache/$name" >&2 ||
			unavailable "python3 cannot make a virtual environment (python3-venv)"
		"$cache/$name/bin/pip" install --quiet --disable-pip-version-check --retries 5 --timeout 60 "$@" >&2 ||
			unavailable "pip cannot install $*"
		echo "$*" >"$cache/$name/.complete"
	fi
	echo "$cache/$name"
}

# with_npm NAME PACKAGE...: a directory with node_modules
with_npm() {
	name=$1
	shift
	command -v npm >/dev/null || unavailable "there is no npm"
	if [ "$(cat "$cache/$name/.complete" 2>/dev/null)" != "$*" ]; then
		rm -rf "${cache:?}/$name"
		mkdir "$cache/$name"
		echo '{"private":true,"type":"module"}' >"$cache/$name/package.json"
		(cd "$cache/$name" && npm install --silent --no-audit --no-fund --fetch-retries=5 \
			--fetch-retry-mintimeout=2000 --fetch-timeout=60000 "$@") >&2 ||
			unavailable "npm cannot install $*"
		echo "$*" >"$cache/$name/.complete"
	fi
	echo "$cache/$name"
}

mkdir -p "$cache"
exec 9>"$cache/$1.lock"
flock 9
case $1 in
python)
	with_pip python 'mcp>=2.3,<3' 'jsonschema>=4.20,<5'
	;;
fastmcp)
	with_pip fastmcp 'fastmcp>=4.1,<5'
	;;
langchain)
	with_pip langchain 'langchain-mcp-adapters>=0.3,<0.4' 'mcp>=1.9,<2'
	;;
kernel)
	with_pip kernel 'ipykernel>=6.29,<8' 'jupyter_client>=8.6,<9'
	;;
node)
	with_npm node '@modelcontextprotocol/sdk@^1.29' 'ajv@^8'
	;;
node22)
	with_npm node22 'node@22' '@modelcontextprotocol/client@2.4.0' '@modelcontextprotocol/inspector@2.12.0' \
		'@anthropic-ai/mcpb@2.1.2'
	;;
*)
	echo "usage: setup.sh python|node|node22|fastmcp|langchain|kernel" >&2
	exit 2
	;;
esac
