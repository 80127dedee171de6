#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fetch official MCP clients and tools into a cache directory, once. Prints that directory.
#
#   setup.sh ipython PYTHON VERSION
#   setup.sh python|httpx|node|node22|fastmcp|langchain|duckdb|pyarrow|polars|kernel|notebook|bars|schemathesis|objects|examples
#
# ipython   IPython and what draws, for this interpreter
# python    the Python SDK
# httpx     httpx
# node      the TypeScript SDK, series 1
# node22    Node 22, and what needs it: the TypeScript SDK, series 2; the MCP Inspector; the tool for MCPB bundles
# fastmcp   the client of fastmcp
# langchain langchain-mcp-adapters, which want series 1 of the Python SDK
# notebook  Jupyter's client, its kernel and nbconvert
# bars      progress bars: tqdm and rich
# objects   servers of S3 and Azure Blob that verify signatures (s3rver: Version 4, and Azurite); they run with the Node of node22
# schemathesis  a tester of what an OpenAPI description promises
# examples  parsers of YAML and of HCL, for the examples of Kubernetes and Nomad
# duckdb    DuckDB for Python
# pyarrow   Arrow and Parquet
# polars    data frames of polars
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
interpreter=python3
with_pip() {
	name=$1
	shift
	if [ "$(cat "$cache/$name/.complete" 2>/dev/null)" != "$*" ] || ! "$cache/$name/bin/python3" -c '' 2>/dev/null; then
		rm -rf "${cache:?}/$name"
		"$interpreter" -m venv "$cache/$name" >&2 ||
			unavailable "$interpreter cannot make a virtual environment (python3-venv)"
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
ipython)
	interpreter=$2
	with_pip "ipython-$3" 'ipython>=8,<10' 'matplotlib>=3.7,<4' 'pandas>=2,<4'
	;;
python)
	with_pip python 'mcp>=2.3,<3' 'jsonschema>=4.20,<5'
	;;
httpx)
	with_pip httpx 'httpx>=0.27,<1'
	;;
fastmcp)
	with_pip fastmcp 'fastmcp>=4.1,<5'
	;;
langchain)
	with_pip langchain 'langchain-mcp-adapters>=0.3,<0.4' 'mcp>=1.9,<2'
	;;
notebook)
	with_pip notebook 'ipykernel>=6.29,<8' 'jupyter_client>=8.6,<9' 'nbconvert>=7.16,<8'
	;;
bars)
	with_pip bars 'tqdm>=4.66,<5' 'rich>=13,<15'
	;;
kernel)
	with_pip kernel 'ipykernel>=6.29,<8' 'jupyter_client>=8.6,<9'
	;;
duckdb)
	with_pip duckdb 'duckdb>=1.1,<3'
	;;
pyarrow)
	with_pip pyarrow 'pyarrow>=17,<25'
	;;
polars)
	with_pip polars 'polars>=1.20,<2'
	;;
examples)
	with_pip examples 'python-hcl2>=7,<9' 'PyYAML>=6,<7'
	;;
schemathesis)
	with_pip schemathesis 'schemathesis>=4.20,<5'
	;;
node)
	with_npm node '@modelcontextprotocol/sdk@^1.29' 'ajv@^8'
	;;
node22)
	with_npm node22 'node@22' '@modelcontextprotocol/client@2.4.0' '@modelcontextprotocol/inspector@2.12.0' \
		'@anthropic-ai/mcpb@2.1.2'
	;;
objects)
	with_npm objects '@20minutes/s3rver@4.0.4' 'azurite@3.35.0'
	;;
*)
	echo "usage: setup.sh ipython|python|httpx|node|node22|fastmcp|langchain|duckdb|pyarrow|polars|kernel|notebook|bars|schemathesis|objects|examples" >&2
	exit 2
	;;
esac
