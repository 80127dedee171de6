# SPDX-License-Identifier: Apache-2.0
# Turns the constants of limits-*.h and image-limits.h into the list of codebox-limits(7).

function number(v, name,    f, n, i, unit)
{
	gsub(/\(size_t\)|\(uint64_t\)/, "", v)
	if (v ~ /^KIB\(/) unit = " KiB"
	else if (v ~ /^MIB\(/) unit = " MiB"
	else if (v ~ /^GIB\(/) unit = " GiB"
	else if (v ~ /<< 10/) unit = " KiB"
	else if (v ~ /<< 20/) unit = " MiB"
	else if (v ~ /<< 30/) unit = " GiB"
	sub(/<<.*/, "", v)
	gsub(/[^0-9*]/, "", v)
	n = split(v, f, "*")
	v = 1
	for (i = 1; i <= n; i++)
		v *= f[i]
	if (!unit && name ~ /_MS$/) unit = " ms"
	if (!unit && name ~ /_S$/) unit = " s"
	return v unit
}

function escape(s)
{
	gsub(/\\/, "\\e", s)
	gsub(/"/, "\\(dq", s)
	gsub(/'/, "\\(aq", s)
	gsub(/`/, "\\(ga", s)
	gsub(/…/, "...", s)
	return s
}

function flush(    owner, test, at)
{
	if (!name)
		return
	sub(/[ \t]*\*\/[ \t]*$/, "", text)
	if (match(text, /\[[a-z]+\/[^]]*\]$/)) {
		test = substr(text, RSTART + 1, RLENGTH - 2)
		text = substr(text, 1, RSTART - 1)
	}
	sub(/[ \t]*$/, "", text)
	at = index(text, ": ")
	owner = substr(text, 1, at - 1)
	text = substr(text, at + 2)
	if (title) {
		if (open)
			print ".El"
		print ".Ss " escape(title)
		print ".Bl -tag -width Ds"
		open = 1
		title = ""
	}
	print ".It Dv " name " No = " number(value, name)
	print toupper(substr(text, 1, 1)) escape(substr(text, 2)) "."
	print ".Pq " owner (test ? ", Pa tests/" test : "")
	name = ""
}

/^\/\* [A-Z].*\*\/$/ && !/SPDX/ {
	flush()
	title = $0
	sub(/^\/\* /, "", title)
	sub(/[.;:]? *\*\/$/, "", title)
	sub(/ \([a-z.]+\)/, "", title)
	next
}

/^#define CBX_/ && NF > 2 {
	flush()
	name = $2
	at = index($0, "/*")
	value = substr($0, 1, at - 1)
	sub(/^#define [A-Z0-9_]+ +/, "", value)
	text = substr($0, at + 3)
	if (text !~ /\*\//)
		more = 1
	next
}

more {
	line = $0
	sub(/^[ \t]*\* ?/, "", line)
	text = text " " line
	if (line ~ /\*\//)
		more = 0
}

END {
	flush()
	print ".El"
}
