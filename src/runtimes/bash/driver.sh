# SPDX-License-Identifier: Apache-2.0
#
# The Bash interpreter of a codebox session: Bash 4.4 or later runs this file, and speaks frames with codeboxd
# (src/interp/interpreter-protocol.h) on descriptors 250 and 251.
#
# A cell is evaluated at the top level, by a file that is sourced ("cell"): so what it declares is global, its lines are
# counted from 1, and it can be left from any depth.
#
# An interrupt leaves it: from its trap on, every command is a "return" (extdebug) until this file has control again.
# Variables, functions, jobs and traps are as they were.
#
# What ends a shell ("exit", "set -e", an unset variable under "set -u") ends the cell only: the trap EXIT becomes a new
# Bash by exec, in the same process, which reads the old one's state. Background processes keep running; "jobs" no
# longer knows them.
#
# The user's options hold while a cell runs only. Builtins are called as such, since functions may have their names.
# User code shares this process, and can break all of it on purpose: that ends its own interpreter.

__codebox_directory=${BASH_SOURCE[0]%/*}
__codebox_code= __codebox_state=idle __codebox_id=0 __codebox_count=0 __codebox_user= __codebox_input= __codebox_goodbye= __codebox_last=
__codebox_status=0
__codebox_empty=unsure

# A frame: 32 bits, the length, little-endian, and JSON. No locale but C reads bytes; LC_CTYPE alone changes faster.
__codebox_receive() {
	if [[ ${LC_ALL-} ]]; then
		builtin local REPLY LC_ALL=C
	else
		builtin local REPLY LC_CTYPE=C
	fi
	# Without a name "read" keeps blanks, and an IFS for it costs as much as it does. A byte of 0 ends what is read. If that
	# is the second or third, what remains is 0, too, and skipped by "read -N"; or else the third is in the brace's place.
	builtin read -r -d '' -n 4 -u 250 || builtin exit 0
	if [[ ${#REPLY} == [12] ]]; then
		builtin printf -v __codebox_length '(%d & 255) + ((%d & 255) << 8)' "'$REPLY" "'${REPLY:1}"
	else
		__codebox_length
	fi
	builtin read -r -N "$((__codebox_length))" -u 250 || builtin exit 0
	__codebox_frame=$REPLY
	if [[ ${REPLY:0:2} != '{"' ]]; then
		builtin printf -v __codebox_length '((%d & 255) << 16) + 1' "'$REPLY"
		builtin read -r -N "$((__codebox_length))" -u 250 || builtin exit 0
		__codebox_frame=${__codebox_frame:1}$REPLY
	fi
}

# Any length; REPLY is what was read of it.
__codebox_length() {
	builtin local i=0 byte
	__codebox_length=0
	for (( ; ; )); do
		for ((; ${#REPLY}; i += 8)); do
			builtin printf -v byte %d "'$REPLY"
			((__codebox_length += (byte & 255) << i))
			REPLY=${REPLY:1}
		done
		if (((i += 8) >= 32)); then
			builtin return
		fi
		builtin read -r -d '' -n "$((4 - i / 8))" -u 250 || builtin exit 0
	done
}

# ASCII, or else in the locale C.
__codebox_send() {
	builtin local size
	builtin printf -v size '\\x%02x\\x%02x\\x%02x\\x%02x' $((${#1} & 255)) $((${#1} >> 8 & 255)) \
		$((${#1} >> 16 & 255)) $((${#1} >> 24 & 255))
	builtin printf "$size%s" "$1" >&251 || builtin exit 1
}

# Text as JSON has it, into __codebox_text.
__codebox_quote() {
	builtin local LC_ALL=C
	__codebox_text=${1//\\/\\\\}
	__codebox_text=\"${__codebox_text//\"/\\\"}\"
	__codebox_text=${__codebox_text//[$'\x01'-$'\x1f']/?}
}

# The other way: $1 is the variable, $2 what was between the quotes.
__codebox_unquote() {
	builtin printf -v "$1" %b "${2//\\\"/\"}"
}

# Strings of a list or an object, separated by , and :
__codebox_strings() {
	builtin local rest="$1" string='^"(([^"\]|\\.)*)"[,:]?'
	__codebox_list=()
	while [[ $rest =~ $string ]]; do
		__codebox_unquote "__codebox_list[${#__codebox_list[@]}]" "${BASH_REMATCH[1]}"
		rest=${rest:${#BASH_REMATCH[0]}}
	done
}

__codebox_environment() {
	builtin local i
	__codebox_strings "${__codebox_frame#*\"environment\":\{}"
	for ((i = 0; i + 1 < ${#__codebox_list[@]}; i += 2)); do
		builtin export "${__codebox_list[i]}=${__codebox_list[i + 1]}"
	done
}

# ---- cells ----

# A program is put into a file of the workspace, and sourced there with its arguments. Where the workspace is a directory of
# the machine, nothing is left there: a file that is not in it already goes to the home.
__codebox_program() {
	__codebox_strings "${__codebox_frame#*\"file\":}"
	builtin local path="/workspace/${__codebox_list[0]}"
	if ! builtin printf %s "$__codebox_code" | base64 -d | cmp -s - "$path" 2>/dev/null; then
		if [[ -d /home/user && $(stat -c %d /workspace) != "$(stat -c %d /home/user)" ]]; then
			path="/home/user/${path##*/}"
		fi
		builtin printf %s "$__codebox_code" | base64 -d >"$path.new" && mv -f -- "$path.new" "$path"
	fi
	builtin printf -v path %q "$path"
	BASH_ARGV0=${__codebox_list[0]}
	__codebox_code=". $path \"\$@\""
}

# A cell with more than its code.
__codebox_run() {
	__codebox_code=${__codebox_frame#*\"code\":\"}
	__codebox_unquote __codebox_code "${__codebox_code%\",\"silent\":*}"
	if [[ $__codebox_frame == *'"argv":['* ]]; then
		__codebox_strings "${__codebox_frame#*\"argv\":[}"
		__codebox_arguments=("${__codebox_list[@]:1}")
	fi
	if [[ $__codebox_frame == *'"file":"'* ]]; then
		__codebox_program
	fi
	if [[ $__codebox_frame == *'"last":true'* ]]; then
		__codebox_last=1
	fi
	if [[ $__codebox_frame == *'"input":true'* ]]; then
		__codebox_input=1
		\exec <&252
	fi
}

__codebox_complete_cell() {
	builtin local code said status=complete continued='(^|[^\])(\\\\)*\\$'
	code=${__codebox_frame#*\"code\":\"}
	__codebox_unquote code "${code%\"\}}"
	said=$(builtin printf '%s\n' "$code" | LC_ALL=C "$BASH" -n 2>&1)
	case $said in
	*'unexpected end of file'* | *'unexpected EOF'* | *'delimited by end-of-file'*) status=incomplete ;;
	*'syntax error'*) status=invalid ;;
	esac
	if [[ $code =~ $continued ]]; then
		status=incomplete
	fi
	__codebox_send "{\"ev\":\"is_complete\",\"id\":$__codebox_id,\"status\":\"$status\",\"indent\":\"\"}"
}

__codebox_complete() {
	builtin local code cursor word list= match kind first='(^|[;|&(]|\$\()[[:space:]]*$'
	kind=(-f)
	code=${__codebox_frame#*\"code\":\"}
	cursor=${code##*\"cursor\":}
	cursor=${cursor%%[!0-9]*}
	__codebox_unquote code "${code%\",\"cursor\":*}"
	code=${code:0:cursor}
	word=${code##*[[:space:];|&()<>\"\'=]}
	if [[ $word == \$* ]]; then
		kind=(-v -P '$') word=${word#\$}
	elif [[ ${code%"$word"} =~ $first && $word != */* ]]; then
		kind=(-A command -A function -A alias -A builtin -A keyword)
	fi
	while IFS= builtin read -r match; do
		__codebox_quote "$match"
		list+=,$__codebox_text
	done < <(builtin compgen "${kind[@]}" -- "$word" | sort -u | head -n 500)
	((cursor = ${#code}))
	[[ ${kind[0]} == -v ]] && word=\$$word
	list="{\"ev\":\"complete\",\"id\":$__codebox_id,\"matches\":[${list#,}],\
\"start\":$((cursor - ${#word})),\"end\":$cursor}"
	builtin local LC_ALL=C
	__codebox_send "$list"
}

# What a name stands for.
__codebox_describe() {
	if [[ -v $1 ]]; then
		builtin declare -p -- "$1"
	fi
	case $(builtin type -t -- "$1") in
	builtin | keyword) builtin type -- "$1" && builtin help "$1" ;;
	'') [[ -v $1 ]] || builtin type -- "$1" ;;
	*) builtin type -- "$1" ;;
	esac
}

# The name at the cursor.
__codebox_inspect() {
	builtin local code cursor word rest line text=
	code=${__codebox_frame#*\"code\":\"}
	cursor=${code##*\"cursor\":}
	cursor=${cursor%%[!0-9]*}
	__codebox_unquote code "${code%\",\"cursor\":*}"
	word=${code:0:cursor} rest=${code:cursor}
	word=${word##*[!A-Za-z0-9_.-]}${rest%%[!A-Za-z0-9_.-]*}
	while [[ $word ]] && IFS= builtin read -r line; do
		__codebox_quote "$line"
		text+=${__codebox_text:1:-1}\\n
	done < <(__codebox_describe "$word" 2>/dev/null | head -n 500)
	builtin local LC_ALL=C
	__codebox_send "{\"ev\":\"inspect\",\"id\":$__codebox_id,\"text\":\"$text\"}"
}

# The next cell, into __codebox_code.
__codebox_begin() {
	builtin local op
	for ((;;)); do
		op=${__codebox_frame##*\"op\":\"}
		__codebox_id=${__codebox_frame##*\"id\":}
		__codebox_id=${__codebox_id%%[!0-9]*}
		case $op in
		run\"*)
			__codebox_run
			builtin break
			;;
		session\"*) __codebox_environment ;;
		is_complete\"*) __codebox_complete_cell ;;
		complete\"*) __codebox_complete ;;
		inspect\"*) __codebox_inspect ;;
		esac
		__codebox_receive
	done
}

# Options that the driver has to do without meanwhile.
__codebox_options() {
	if [[ $__codebox_user == *[xv]* ]]; then
		__codebox_code="{ builtin set -$__codebox_user; } 2>/dev/null; $__codebox_code"
	else
		builtin set "-$__codebox_user"
	fi
}

# At the end of a cell that had an input of its own, or where the workspace may be empty still: then no file has changed,
# and codeboxd need not look. Once there was one it looks. The size of a directory of a tmpfs says so from then on.
__codebox_look() {
	builtin local mounts mount
	if [[ $__codebox_input ]]; then
		__codebox_input=
		\exec </dev/null
	fi
	if [[ ! $__codebox_empty ]]; then
		builtin return
	elif builtin compgen -G '/workspace/*' || builtin compgen -G '/workspace/.[!.]*' ||
		builtin compgen -G '/workspace/..?*'; then
		__codebox_empty=
	elif [[ $__codebox_empty == unsure ]]; then
		__codebox_empty=now
		builtin mapfile -t mounts </proc/self/mountinfo
		for mount in "${mounts[@]}"; do
			case $mount in # the last is the one on top
			*' /workspace '*' - tmpfs '*) __codebox_empty=by-size ;;
			*' /workspace '*) __codebox_empty=now ;;
			esac
		done
	fi >/dev/null
}

# From the end of a cell to the beginning of the next. Where the shell has ended, that is what the user wants then.
# $1: the exit status.
__codebox_turn() {
	if [[ $__codebox_state == run ]]; then
		__codebox_user= __codebox_status=$1 __codebox_state=ok
		(($1)) && __codebox_state=error
		if [[ $- == *[efuvx]* ]]; then
			__codebox_user=${-//[icsrkE]/}
			builtin set +efuvx
		fi
	else
		builtin set +efuvx
	fi
	if [[ $__codebox_goodbye && ( $__codebox_state == exit || $__codebox_state == failed || $__codebox_last ) ]]; then
		__codebox_code=$__codebox_goodbye __codebox_goodbye=
		builtin return 0
	fi
	if [[ $__codebox_state != idle ]]; then
		if [[ $__codebox_input || $__codebox_empty && ($__codebox_empty != by-size || -s /workspace) ]]; then
			__codebox_look
		fi
		# A frame of 200 bytes, the last of which are spaces.
		builtin printf '\xc8\0\0\0%-200s' "{\"ev\":\"done\",\"id\":$__codebox_id,\
\"status\":\"${__codebox_state/failed/error}\",\"count\":$__codebox_count,\"exit_code\":$__codebox_status\
${__codebox_empty:+,\"workspace\":\"empty\"}}" >&251 || builtin exit 1
	fi
	__codebox_state=idle
	__codebox_receive
	__codebox_code=${__codebox_frame%\",\"silent\":*}
	__codebox_id=${__codebox_frame:${#__codebox_code}}
	if [[ ${__codebox_frame:0:9} == '{"code":"' && $__codebox_id == '","silent":false,"op":"run","id":'* ]]; then
		__codebox_id=${__codebox_id:33:-1}
		__codebox_code=${__codebox_code:9}
		if [[ $__codebox_code == *\\* ]]; then
			__codebox_unquote __codebox_code "$__codebox_code"
		fi
	else
		__codebox_begin
	fi
	if [[ $__codebox_code == [A-Za-z_]*([A-Za-z0-9_.-])'?' ]]; then
		__codebox_code="__codebox_describe ${__codebox_code%?}"
	fi
	((++__codebox_count))
	builtin trap "$__codebox_on_interrupt" INT
	__codebox_state=run
	if [[ $__codebox_user ]]; then
		__codebox_options
	fi
}

__codebox_says() {
	builtin return "$__codebox_status"
}

# ---- leaving a cell before its end ----

# The trap DEBUG meanwhile: 2 is a "return" of what runs. At the top the driver goes on.
__codebox_leave() {
	if ((${#FUNCNAME[@]} > 2)); then
		builtin return 2
	fi
	builtin trap - DEBUG
	builtin shopt -u extdebug
}

# $1: why; $2: the exit status.
__codebox_left() {
	__codebox_state=$1 __codebox_status=$2 __codebox_user=${-//[icsrkE]/}
	builtin set +eu
	builtin shopt -s extdebug
	builtin trap __codebox_leave DEBUG
}

__codebox_on_interrupt='if [[ $__codebox_state == run ]]; then
	__codebox_left interrupted 130
	builtin return 130
fi'

__codebox_on_error='case $?$-$__codebox_state$BASHPID in
*e*run"$$") __codebox_left failed "$?"; builtin return ;;
esac'

exit() {
	if [[ $__codebox_state != run || $BASHPID != "$$" ]]; then
		builtin exit "$@"
	fi
	__codebox_left exit "$((${1-$?} & 255))"
}

# A trap EXIT of the user's is run when a cell exits, or behind the last one. In a subshell nothing is special.
trap() {
	builtin local name action="${1-}" names
	names=()
	if [[ $BASHPID != "$$" || $# -lt 2 || $1 == -[lp]* ]]; then
		builtin trap "$@"
		builtin return
	fi
	[[ $1 == -- ]] && builtin shift && action=${1-}
	for name in "${@:2}"; do
		case $name in
		[Ee][Xx][Ii][Tt] | 0) __codebox_goodbye=${action#-} ;;
		*) names+=("$name") ;;
		esac
	done
	if ((${#names[@]})); then
		builtin trap -- "$action" "${names[@]}"
	fi
}

# ---- the end of a shell, and the next ----

__codebox_dump() {
	builtin declare -p
	builtin declare -f
	builtin declare -Fx | while builtin read -r _ _ name; do builtin printf 'export -f %q\n' "$name"; done
	builtin alias -p
	builtin trap -p
	builtin shopt -p
	builtin set +o
	builtin printf '__codebox_arguments=('
	builtin printf ' %q' "$@"
	builtin printf ')\n'
}

__codebox_exit() {
	__codebox_status=$1
	if [[ $__codebox_state == idle ]]; then
		builtin return
	fi
	builtin shift
	__codebox_state=failed __codebox_user=${-//[icsrkE]/}
	if [[ $BASH_COMMAND == *exit* ]]; then
		__codebox_state=exit
	elif ((! __codebox_status)); then
		__codebox_status=143 # a signal, which Bash does not name here; the usual one
	fi
	builtin set +efuvx +o posix
	__codebox_trap_err=$(builtin trap -p ERR)
	builtin trap - DEBUG ERR RETURN EXIT
	\exec 253< <(__codebox_dump "$@" 2>/dev/null)
	\exec "$BASH" --noprofile --norc "$__codebox_directory/driver.sh" restore
}

if [[ ${1-} == restore ]]; then
	{ builtin . /dev/fd/253; } 2>/dev/null
	\exec 253<&-
else
	\exec 250<&3 251>&4 252<&0 3<&- 4>&- </dev/null
	builtin unset CODEBOX_FD
	builtin shopt -s expand_aliases
	__codebox_send "{\"ev\":\"ready\",\"language\":\"bash\",\"version\":\"${BASH_VERSION%%(*}\",\"kind\":\"plain\"}"
fi
builtin set -E
builtin trap "$__codebox_on_interrupt" INT
builtin trap "$__codebox_on_error" ERR
builtin eval "${__codebox_trap_err-}" # the user's, or that
# A child that is ended before it has begun has this trap still.
builtin trap 'case $BASHPID in "$$") __codebox_exit "$?" "$@" ;; esac' EXIT
BASH_ARGV0=bash
while { __codebox_turn "$?"; } 2>/dev/null || :; do # for (;;), with the exit status of the cell at its end
	if [[ ${__codebox_arguments+set} ]]; then
		builtin set -- "${__codebox_arguments[@]}"
		builtin unset __codebox_arguments
	fi
	# It finds the exit status of the one before in $?; on the left of a list that is no error for -e or a trap ERR.
	if ((__codebox_status == 0)); then
		builtin . "$__codebox_directory/cell"
	else
		__codebox_says || builtin . "$__codebox_directory/cell"
	fi
done
