# SPDX-License-Identifier: Apache-2.0
# NEWS as a Debian changelog of one entry: awk -v version=V -v date=RFC2822 -f changelog.awk NEWS
# The first section of NEWS is what this version brings. Lines are filled anew: Debian's are shorter.
function fill(text,    words, n, i, line) {
	n = split(text, words, " ")
	line = "  *"
	for (i = 1; i <= n; i++) {
		if (length(line) + 1 + length(words[i]) > 79) {
			print line
			line = "   "
		}
		line = line " " words[i]
	}
	print line
}
function end_item() {
	if (item != "")
		fill(item)
	item = ""
}
BEGIN {
	printf "codebox (%s) unstable; urgency=medium\n\n", version
}
/^codebox / {
	if (section++)
		exit
	next
}
/^[*] / {
	end_item()
	item = substr($0, 3)
	next
}
/[^ ]/ {
	item = item " " $0
}
END {
	end_item()
	printf "\n -- codebox developers <codebox@packages.invalid>  %s\n", date
}
