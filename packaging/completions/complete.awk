# SPDX-License-Identifier: Apache-2.0
# The completion of a shell, from the file "commands" and a template in which one line is "@table@":
# awk -v shell=bash|zsh|fish -v template=FILE -f complete.awk commands
function trim(s) {
	gsub(/^ +| +$/, "", s)
	return s
}
function add(line) {
	table = table line "\n"
}
# What an option or a command takes, as arguments of fish's complete.
function takes(kind,    list) {
	if (kind == "-")
		return " -f"
	if (kind == "text")
		return " -x"
	if (kind == "file")
		return " -r -F"
	if (kind == "dir")
		return " -x -a '(__fish_complete_directories)'"
	if (kind ~ /^words:/) {
		list = substr(kind, 7)
		gsub(",", " ", list)
		return " -x -a '" list "'"
	}
	if (kind ~ /^(place|recipe|policy)$/)
		return " -r -F -a '(__codebox_" kind ")'"
	return " -x -a '(__codebox_" kind ")'"
}
function fish(place, kind, text,    words, n, last, above) {
	n = split(place, words, " ")
	last = words[n]
	above = n == 1 ? "__codebox_bare" : "'__codebox_at " words[1] (n == 3 ? " " words[2] : "") "'"
	if (last ~ /^-/) {
		add("complete -c codebox -n " above (last ~ /^--/ ? " -l " : " -s ") substr(last, last ~ /^--/ ? 3 : 2) \
		    " -d '" text "'" (kind == "-" ? "" : takes(kind)))
		return
	}
	add("complete -c codebox -n " (n == 2 ? "'__codebox_only " words[1] "'" : above) " -f -a " last " -d '" text "'")
	if (kind != "-")
		add("complete -c codebox -n '__codebox_at " place "'" takes(kind))
}
BEGIN {
	FS = "|"
}
/^#/ || !/[|]/ {
	next
}
{
	place = trim($1)
	kind = trim($2)
	text = trim($3)
	if (shell == "bash")
		add("\t[\"" place "\"]=\"" kind "\"")
	else if (shell == "zsh")
		add("\t'" place "' '" kind "'")
	else
		fish(place, kind, text)
	texts = texts "\t'" place "' '" text "'\n"
	if (place !~ / /)
		commands = commands " " place
}
END {
	if (shell == "bash")
		table = "declare -A _codebox_kind=(\n" table ")\n"
	else if (shell == "zsh")
		table = "typeset -gA _codebox_kind _codebox_text\n_codebox_kind=(\n" table ")\n_codebox_text=(\n" texts ")\n"
	while ((getline line <template) > 0) {
		if (line == "@table@")
			printf "%s", table
		else {
			sub(/@commands@/, commands, line)
			print line
		}
	}
}
