#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs in the guest, as root, from a unit; see run. $PARTS: some of base, service, limits, probes,
# probes_root, server, crowd and package.
# Every line that starts with ok, not ok or # goes to the console.
export PATH=$PREFIX/bin:/usr/bin:/bin:/usr/sbin:/sbin
n=0
failed=0

# check NAME COMMAND...: the command's last lines are shown when it fails
check() {
	local name=$1 out
	shift
	n=$((n + 1))
	if out=$("$@" 2>&1); then
		echo "ok $n - $name"
	else
		failed=$((failed + 1))
		echo "not ok $n - $name"
		printf '%s\n' "$out" | tail -n 12 | sed 's/^/# /'
	fi
}
# The way an MCP client starts a server: neither XDG_RUNTIME_DIR nor the bus is in the environment.
user() {
	su - tester -c "unset XDG_RUNTIME_DIR DBUS_SESSION_BUS_ADDRESS; PATH=$PATH; $1"
}
manager() {
	su - tester -c "export XDG_RUNTIME_DIR=/run/user/1001; PATH=$PATH; $1"
}

# python NAME COMMAND...: the points of a TAP test are points of this one
python() {
	local name=$1 line
	shift
	while IFS= read -r line; do
		case $line in
		"ok "*) n=$((n + 1)) && echo "ok $n - $name:${line#ok * -}" ;;
		"not ok "*) n=$((n + 1)) && failed=$((failed + 1)) && echo "not ok $n - $name:${line#not ok * -}" ;;
		1..*) echo "# $name: $line" ;;
		*) echo "# $line" ;;
		esac
	done < <("$@" 2>&1)
	# A script that broke off has said nothing of what it left out.
	if ! wait $!; then
		n=$((n + 1))
		failed=$((failed + 1))
		echo "not ok $n - $name: the script's exit status"
	fi
}

# Each part can run alone: an image of the guest's own /usr is built unless an earlier part has.
users_image() {
	user 'codebox image show host >/dev/null 2>&1 || codebox image build host'
}
roots_image() {
	codebox image show host >/dev/null 2>&1 || codebox image build host
}
one_cell() {
	[ "$(user "codebox run --image host -c 'print(6 * 7)'")" = 42 ]
}
own_scope() {
	local pid
	pid=$(pgrep -u tester -x codeboxd) || return 1
	cat "/proc/$pid/cgroup"
	grep -q '^0::/user.slice/user-1001.slice/user@1001.service/.*\.scope/supervisor$' "/proc/$pid/cgroup"
}
group_killed() {
	local pid
	pid=$(pgrep -u tester -x codeboxd) || return 1
	# A client that kills its whole process group does not take the daemon along.
	su - tester -c "PATH=$PATH; setsid bash -c 'codebox run --image host -c \"1\"; kill -9 0'" || true
	[ "$(pgrep -u tester -x codeboxd)" = "$pid" ]
}
# ended PGREP-ARGUMENT...: no such process, or none any more in a while
ended() {
	local i
	for ((i = 0; i < 600; i++)); do
		pgrep "$@" || return 0
		sleep 0.2
	done
	return 1
}
stopped() {
	user 'codebox stop' && ended -u tester -f 'codeboxd|codebox-supervisor|codebox-init'
}
units() {
	su - tester -c "mkdir -p ~/.config/systemd/user && cp $PREFIX/lib/systemd/user/* ~/.config/systemd/user/" &&
		manager 'systemctl --user daemon-reload && systemctl --user start codeboxd.socket'
}
# notified MANAGER: the start took until READY=1, and the status is what codeboxd said
notified() {
	local pid
	"$@" show codeboxd.service | grep -E '^(Type|ActiveState|StatusText|WatchdogUSec|MainPID|NotifyAccess)=' | tee /tmp/shown
	grep -qx 'Type=notify' /tmp/shown && grep -qx 'ActiveState=active' /tmp/shown && grep -qx 'WatchdogUSec=1min' /tmp/shown &&
		grep -qE '^StatusText=[0-9]+ sessions$' /tmp/shown || return 1
	# One that reloads is active again.
	pid=$(sed -n 's/^MainPID=//p' /tmp/shown)
	"$@" reload codeboxd.service && [ "$("$@" show -P ActiveState codeboxd.service)" = active ] &&
		[ "$("$@" show -P MainPID codeboxd.service)" = "$pid" ]
}
user_notified() {
	notified user_systemctl
}
user_systemctl() {
	manager "systemctl --user $*"
}
# A codeboxd that is silent is ended, and the next client's connection starts another.
watchdog() {
	local pid i
	mkdir -p /run/systemd/system/codeboxd.service.d
	printf '[Service]\nWatchdogSec=2s\n' >/run/systemd/system/codeboxd.service.d/watchdog.conf
	systemctl daemon-reload && systemctl restart codeboxd.service || return 1
	sleep 5
	[ "$(systemctl is-active codeboxd.service)" = active ] || return 1
	pid=$(systemctl show -P MainPID codeboxd.service)
	kill -STOP "$pid"
	for ((i = 0; i < 300; i++)); do
		[ "$(systemctl show -P Result codeboxd.service)" = watchdog ] && break
		sleep 0.2
	done
	systemctl show -P Result codeboxd.service
	[ ! -e "/proc/$pid" ] || return 1
	rm -r /run/systemd/system/codeboxd.service.d
	systemctl daemon-reload && systemctl reset-failed codeboxd.service
	root_cell
}
# What it may is measured, and less than it is no accident.
exposure() {
	systemd-analyze security --no-pager codeboxd.service | tee /dev/stderr | grep -q '^→ Overall exposure level .*: 4\.[0-8] '
}
# Ids of their own, a file system and processes of their own, a limit that holds, files that stay.
hardened() {
	codebox run --image host --session hardened -c 'import os
print(os.getpid(), os.getuid(), open("/proc/self/uid_map").read().split()[1] != "0", len([p for p in os.listdir("/proc") if p.isdigit()]) < 9)
open("kept", "w").write("here")' | tee /dev/stderr | grep -qE '^[0-9]+ 1000 True True$' &&
		codebox run --session hardened -c 'print(open("kept").read())' | grep -qx here &&
		codebox exec hardened -- /usr/bin/python3 -c 'print("beside")' | grep -qx beside &&
		codebox session info hardened | tee /dev/stderr | grep -q '^limits.backend *\(inherit\|systemd\|delegated\)' &&
		codebox session rm hardened
}
root_cell() {
	codebox run --image host -c 'print(6 * 7)' | grep -qx 42 && [ "$(systemctl is-active codeboxd.service)" = active ]
}
unit_group() {
	user "codebox run --image host --session unit -c 1 && codebox session info unit" | tee /dev/stderr |
		grep -q '^limits.backend *inherit$'
}
by_socket() {
	one_cell && [ "$(manager 'systemctl --user is-active codeboxd.service')" = active ]
}
socket_again() {
	user 'codebox stop' || return 1
	[ "$(manager 'systemctl --user is-active codeboxd.socket')" = active ] && one_cell
}
no_process() {
	ended 'codeboxd|codebox-supervi|codebox-init'
}
as_root() {
	codebox image build host && codebox run --image host -c 'print(open("/proc/self/uid_map").read())' | tee /tmp/map
	read -r inside outside count </tmp/map
	[ "$inside" = 1000 ] && [ "$outside" != 0 ] && [ "$count" = 1 ] && codebox stop
}
no_user_namespaces() {
	local out
	sysctl -q -w user.max_user_namespaces=0
	out=$(user "codebox run --image host -c 1" 2>&1)
	local rc=$?
	sysctl -q -w user.max_user_namespaces=15000
	echo "$rc: $out"
	[ $rc = 3 ] && [[ $out == *max_user_namespaces* ]]
}
legacy_switch() {
	[ -e /proc/sys/kernel/unprivileged_userns_clone ] || return 0
	local out
	user 'codebox stop'
	sysctl -q -w kernel.unprivileged_userns_clone=0
	out=$(user "codebox run --image host -c 1" 2>&1)
	local rc=$?
	sysctl -q -w kernel.unprivileged_userns_clone=1
	echo "$rc: $out"
	[ $rc = 3 ] && [[ $out == *unprivileged_userns_clone* ]]
}
# AppArmor 4, and a kernel that asks it before it makes a user namespace.
knows_userns() {
	[ -e /etc/apparmor.d/abi/4.0 ] && grep -qsw userns_create /sys/kernel/security/apparmor/features/namespaces/mask
}
# A profile without the right to make user namespaces, for whatever codebox installed. An older AppArmor does not know that
# right; there it is simulated by what Ubuntu 24.04 does to a program without a profile: its user namespace is made, and it
# has no capability there.
restrict() { # PROGRAMS
	local abi=
	aa-enabled -q || return 1
	knows_userns && abi='abi <abi/4.0>,'
	apparmor_parser -K -r <<PROFILE
$abi
profile simulated "$1" {
	file, mount, umount, remount, pivot_root, network, unix, dbus, signal, ptrace,
}
PROFILE
}
names_apparmor() {
	local out rc
	out=$(user "$1" 2>&1)
	rc=$?
	echo "$rc: $out"
	user 'codebox stop' >/dev/null 2>&1
	[ $rc = "$2" ] && [[ $out == *"AppArmor profile simulated"*"sudo apparmor_parser -r /etc/apparmor.d/codebox"* ]]
}
# The shipped profile, without what an older parser does not know: it must name every program that needs it.
own_profile() {
	local unknown=()
	knows_userns || unknown=(-e '/^abi /d' -e '/^  userns,$/d')
	sed -e '' "${unknown[@]}" "$PREFIX/etc/apparmor.d/codebox" >/tmp/codebox.profile &&
		apparmor_parser -K -r /tmp/codebox.profile && users_image && one_cell &&
		grep -q '^codebox-supervisor (unconfined)' "/proc/$(pgrep -u tester -x codebox-supervi | head -n 1)/attr/current"
}
unrestrict() {
	user 'codebox stop'
	apparmor_parser -R /tmp/codebox.profile && echo 'profile simulated {}' | apparmor_parser -R && one_cell &&
		user 'codebox stop'
}

echo "# Linux $(uname -r)"
loginctl enable-linger tester
for _ in $(seq 900); do
	[ -e /run/user/1001/systemd/private ] && break
	sleep 0.2
done
base() {
	check "an image of the guest's own /usr" users_image
	check "the doctor finds everything it requires" user 'codebox doctor'
	check "a cell, with nothing in the environment" one_cell
	check "codeboxd has a scope of its own" own_scope
	check "it outlives a client's process group" group_killed
	check "stop leaves no process" stopped
	check "user units are taken" units
	check "a client's connection starts the service" by_socket
	check "its sessions have groups in the unit's" unit_group
	check "the user manager was told of its start and of a reload" user_notified
	check "after a stop the socket starts it again" socket_again
	manager 'systemctl --user stop codeboxd.socket codeboxd.service' >/dev/null 2>&1
	check "as root" as_root
	check "user namespaces switched off: said, with the remedy" no_user_namespaces
	check "Debian's own switch: said, with the remedy" legacy_switch
	user 'codebox stop' >/dev/null 2>&1 # the one that was started without user namespaces
	knows_userns && echo "# this kernel asks AppArmor for the right to make user namespaces"
	check "an AppArmor profile that takes user namespaces away is loaded" restrict "$PREFIX/**"
	check "under it a cell is refused: AppArmor is named, with the remedy" names_apparmor "codebox run --image host -c 1" 3
	check "and so does the doctor" names_apparmor "codebox doctor" 1
	check "with the shipped profile it works" own_profile
	check "and without the restriction" unrestrict
}
# System units: what they tell the manager, and what the service may.
service() {
	check "root's image for the service" roots_image
	codebox stop >/dev/null
	cp "$PREFIX"/lib/systemd/system/codeboxd.* /etc/systemd/system/
	check "system units are there" systemctl daemon-reload
	check "their socket is started" systemctl start codeboxd.socket
	check "a connection starts the service" root_cell
	check "what it may is little" exposure
	check "a session has all that it needs" hardened
	check "systemd was told of its start and of a reload" notified systemctl
	check "and ends one that is silent, which comes again" watchdog
	check "the service stops, and its socket" systemctl stop codeboxd.socket codeboxd.service
	check "nothing is left of it" no_process
	rm /etc/systemd/system/codeboxd.*
	systemctl daemon-reload
}
limits() {
	check "an image for the limits" users_image
	python 'as a user' su - tester -c "export XDG_RUNTIME_DIR=/run/user/1001 PATH=$PATH CODEBOX=$PREFIX/bin/codebox \
		CODEBOX_DAEMON=$PREFIX/sbin/codeboxd; python3 /opt/codebox-tests/limits.py scope"
	python 'as a user' su - tester -c "export PATH=$PATH CODEBOX=$PREFIX/bin/codebox; \
		python3 /opt/codebox-tests/bombs/lanes.py"
	check "root's image" roots_image
	codebox stop >/dev/null
	cp "$PREFIX"/lib/systemd/system/codeboxd.* /etc/systemd/system/
	mkdir -p /etc/systemd/system/codeboxd.service.d
	printf '[Service]\nEnvironment=CODEBOX_FREEZE_AFTER=1\n' >/etc/systemd/system/codeboxd.service.d/test.conf
	check "system units are taken" systemctl daemon-reload
	check "the socket is started" systemctl start codeboxd.socket
	python 'as root' env "CODEBOX=$PREFIX/bin/codebox" "CODEBOX_DAEMON=$PREFIX/sbin/codeboxd" \
		python3 /opt/codebox-tests/limits.py unit
	check "the service stops" systemctl stop codeboxd.socket codeboxd.service
	check "and leaves no process" no_process
}
# Linux 6.1, and a scope with control groups.
probes() {
	check "an image for the probes" users_image
	python 'probes' su - tester -c "export PATH=$PATH CODEBOX=$PREFIX/bin/codebox; python3 /opt/codebox-tests/probe/run.py"
}
probes_root() {
	check "root's image for the probes" roots_image
	codebox stop >/dev/null
	python 'probes as root' env "CODEBOX=$PREFIX/bin/codebox" python3 /opt/codebox-tests/probe/run.py
}
# What root had before there was an account "codebox" is not that account's: said, with a command that gives it over.
given_over() {
	local said dir remedy
	said=$(codebox image build --force host 2>&1)
	printf '%s\n' "$said"
	for dir in /run/codebox /var/lib/codebox; do
		remedy=$(grep -om1 "chown -Rh --from=[0-9]* codebox $dir\$" <<<"$said")
		[ -n "$remedy" ] && $remedy || return 1
	done
	codebox image build --force host && codebox image rm host # the page builds it
}
# codebox-server(7), command by command: with the packages, or what else was installed in their place.
server() {
	local installs=
	export HOME=/root DEBIAN_FRONTEND=noninteractive
	if [ -n "$PREFIX" ]; then
		check "root's image, before there is an account" roots_image
		codebox stop >/dev/null
		systemd-sysusers "$PREFIX/lib/sysusers.d/codebox.conf"
		check "what root had is given over to the account" given_over
		cp "$PREFIX/share/man/man7/codebox-server.7" /tmp/page
		installs="systemd-sysusers $PREFIX/lib/sysusers.d/codebox.conf && ln -sf $PREFIX/sbin/codeboxd /usr/sbin/codeboxd &&
			cp $PREFIX/lib/systemd/system/codeboxd.* /etc/systemd/system/ && systemctl daemon-reload"
	else
		cp /root/debs/*.deb /root/
		dpkg-deb --fsys-tarfile /root/codebox_*.deb | tar -xO ./usr/share/man/man7/codebox-server.7.gz | gzip -d >/tmp/page
	fi
	python 'the page' python3 /opt/codebox-tests/server.py /tmp/page /root "$installs"
	systemctl disable --now codeboxd.socket codeboxd.service >/dev/null 2>&1
	[ -n "$PREFIX" ] || apt-get purge -y -qq codebox codebox-server >/dev/null 2>&1
	rm -rf /etc/codebox /var/log/codebox-audit /etc/systemd/system/codeboxd.* /root/acme /root/trial /root/watch /root/answer /root/*.deb
	systemctl daemon-reload
	check "the server leaves no process" no_process
}
# Many tenants, and a service that is killed under their load.
crowd() {
	check "root's image for the crowd" roots_image
	codebox stop >/dev/null
	cp "$PREFIX"/lib/systemd/system/codeboxd.* /etc/systemd/system/
	# Whoever kills it as often as that does not want systemd to give up.
	mkdir -p /etc/systemd/system/codeboxd.s{ervice,ocket}.d
	printf '[Unit]\nStartLimitIntervalSec=0\n' | tee /etc/systemd/system/codeboxd.service.d/limit.conf >/etc/systemd/system/codeboxd.socket.d/limit.conf
	python 'tenants' env "CODEBOX=$PREFIX/bin/codebox" "CODEBOX_DAEMON=$PREFIX/sbin/codeboxd" ${ROUNDS:+"CBX_KILL_ROUNDS=$ROUNDS"} \
		python3 /opt/codebox-tests/crowd.py
	rm -rf /etc/systemd/system/codeboxd.* /etc/codebox
	systemctl daemon-reload
}
# The packages, as apt sees them.
package_first() {
	local began=$SECONDS
	apt-get install -y -qq --no-install-recommends /root/debs/codebox_*.deb && user 'codebox image build host' && one_cell &&
		echo $((SECONDS - began)) >/tmp/first
}
package_directories() {
	stat -c '%n %a %U %G' /var/lib/codebox /var/log/codebox | tee /dev/stderr | paste -sd ' ' |
		grep -qx '/var/lib/codebox 750 codebox root /var/log/codebox 700 root root'
}
# The profile came with the package, and codebox works under what Ubuntu 24.04 does to programs without one.
package_profile() {
	grep '^codebox-supervisor (unconfined)' /sys/kernel/security/apparmor/profiles &&
		restrict '/usr/{bin/codebox,sbin/codeboxd,libexec/codebox/**}' && user 'codebox stop --force' && one_cell &&
		grep '^codebox-supervisor (unconfined)' "/proc/$(pgrep -u tester -x codebox-supervi | head -n 1)/attr/current"
}
package_no_profile() {
	user 'codebox stop --force'
	apparmor_parser -R /etc/apparmor.d/codebox && names_apparmor "codebox run --image host -c 1" 3
	local rc=$?
	apparmor_parser -r /etc/apparmor.d/codebox && echo 'profile simulated {}' | apparmor_parser -R && return $rc
}
# Root's session is the system service's, the user's that of a codeboxd of his own: neither ends.
package_upgraded() {
	local deb dir daemons
	for deb in /root/debs/*.deb; do
		dir=$(mktemp -d)
		dpkg-deb -R "$deb" "$dir/tree" && sed -i 's/^Version: .*/&+next/' "$dir/tree/DEBIAN/control" &&
			dpkg-deb -b "$dir/tree" "/root/debs/next-$(basename "$deb")" && rm -rf "$dir" || return 1
	done
	codebox run --image host --session kept -c 'x = 42' && user "codebox run --image host --session kept -c 'x = 41'" || return 1
	daemons=$(pgrep -x codeboxd)
	apt-get install -y -qq --no-install-recommends /root/debs/next-*.deb && dpkg -s codebox | grep '^Version: .*+next$' &&
		[ "$(codebox run --session kept -c 'print(x)')" = 42 ] && [ "$(user "codebox run --session kept -c 'print(x)'")" = 41 ] &&
		[ "$(pgrep -x codeboxd)" = "$daemons" ]
}
# What an administrator and a user have is there afterwards; what runs as the user ends when he wants.
package_purged() {
	echo '{ "include": ["default"] }' >/etc/codebox/policy.json && systemctl reload codeboxd &&
		[ "$(codebox run --session kept -c 'print(x)')" = 42 ] && apt-get purge -y -qq codebox codebox-server || return 1
	find / /run -xdev \( -path /etc/codebox -o -path /root -o -path /home -o -path /opt -o -path "/run/user" -o -path /proc \) \
		-prune -o -iname '*codebox*' -print | tee /dev/stderr | wc -l | grep -qx 0 || return 1
	[ "$(ls -A /etc/codebox)" = policy.json ] && [ -e /home/tester/.local/share/codebox/images/host ] || return 1
	pkill -u tester -x codeboxd
	no_process
}
package() { # [attacked]
	local PATH=/usr/bin:/bin:/usr/sbin:/sbin name
	export DEBIAN_FRONTEND=noninteractive
	mkdir -p /etc/codebox
	check "apt installs the package, and a user gets an answer" package_first
	echo "# from apt install to the first answer, under emulation: $(cat /tmp/first) s"
	check "apt installs the service" apt-get install -y -qq --no-install-recommends /root/debs/codebox-server_*.deb
	check "its directories are as codeboxd would make them" package_directories
	if knows_userns; then
		check "the package's AppArmor profile is loaded, and allows what Ubuntu forbids" package_profile
		check "without it a cell is refused: AppArmor is named, with the remedy" package_no_profile
	fi
	for name in user service; do
		check "debian/tests/$name" env -C /opt/codebox-tests/source "debian/tests/$name"
	done
	[ -z "${1:-}" ] || python debian/tests/probe env -C /opt/codebox-tests/source debian/tests/probe
	check "its directories are as they were" package_directories
	check "an upgrade leaves sessions alone" package_upgraded
	check "a purge leaves nothing of its own, and all that others have" package_purged
}
package_attacked() {
	package attacked
}
for part in $PARTS; do
	before=$failed
	SECONDS=0
	"$part"
	[ "$failed" != "$before" ] || echo "# inside: $part passed in $SECONDS s"
done
echo "1..$n"
echo "# inside: end"
sync
poweroff -f
