# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
#
# shellcheck disable=SC2034 # used by those who source it
# What the scripts share. To be sourced, after `set -euo pipefail`. A script's
# help is the lines of it that begin with "#:".

scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$scripts")
cache=${XDG_CACHE_HOME:-$HOME/.cache}/hwtimer
jobs=$(nproc)
export HWTIMER_STARTED=${HWTIMER_STARTED:-$EPOCHSECONDS}
export LC_ALL=C
unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES	# of the make that runs a script
# Where the logs of this run go, from whichever script it began.
owner=${HWTIMER_LOGS:+no}
export HWTIMER_LOGS=${HWTIMER_LOGS:-$cache/log/$(date +%Y%m%d-%H%M%S).$$}
mkdir -p "$HWTIMER_LOGS" "$cache"/{lock,log}
# Another script may be at it, too, and then it finds what is gone.
find "$cache/log" -mindepth 1 -maxdepth 1 -mtime +2 -exec rm -rf {} + 2>/dev/null || true

usage()
{
	sed -n 's/^#: \{0,1\}//p' "$0"
}

# Wrong use of a script: say what is wrong and how it is right.
misuse()
{
	printf '%s: %s\n' "${0##*/}" "$*" >&2
	usage >&2
	exit 2
}

die()
{
	printf '%s: %s\n' "${0##*/}" "$*" >&2
	exit 1
}

# Progress: on stderr, since stdout carries results.
say()
{
	printf '[%4d s] %s%s\n' $((EPOCHSECONDS - HWTIMER_STARTED)) \
		"${HWTIMER_PART:+$HWTIMER_PART: }" "$*" >&2
}

# in_list WORD WORD...: is the first one among the others?
in_list()
{
	local word=$1 other
	shift
	for other; do
		[[ $word != "$other" ]] || return 0
	done
	return 1
}

passed=0 failed=0 pattern='*'

# try NAME COMMAND...: a check, which passes if the command says nothing. Those whose
# name does not match the glob $pattern are left out.
try()
{
	local name=$1 output status=0
	shift
	# shellcheck disable=SC2053 # a pattern it is
	[[ $name == $pattern ]] || return 0
	output=$("$@" 2>&1) || status=$?
	if [[ -z $output && $status == 0 ]]; then
		echo "ok      $name"
		passed=$((passed + 1))
	else
		echo "FAILED  $name, status $status"
		printf '%s\n' "$output" | sed 's/^/        /'
		failed=$((failed + 1))
	fi
}

# Process groups that this script started and that must not outlive it.
groups=()

end_groups()
{
	local group
	for group in "${groups[@]}"; do
		kill -TERM -- "-$group" 2>/dev/null || true
		kill -CONT -- "-$group" 2>/dev/null || true	# should it be stopped
	done
}

# Directories for the time of this script.
temporary=()

# temporary: a new one, as $temp
temporary()
{
	temp=$(mktemp -d)
	temporary+=("$temp")
}

at_exit()
{
	end_groups
	rm -rf "${temporary[@]}"
	[[ $owner ]] || rmdir "$HWTIMER_LOGS" 2>/dev/null || true
}

trap at_exit EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# launch COMMAND...: start it in a process group of its own, as $launched.
launch()
{
	set -m
	"$@" </dev/null &
	set +m
	launched=$!
	groups+=("$launched")
}

# landed PID: wait for what was launched; returns its status.
landed()
{
	local status=0 group left=()

	wait "$1" || status=$?
	for group in "${groups[@]}"; do
		[[ $group == "$1" ]] || left+=("$group")
	done
	groups=("${left[@]}")
	return "$status"
}

# Kernels for QEMU: Debian's, and those of our own, which have checkers.
own_flavours=(kasan kcsan rt-debug irqsoff)
flavours=(amd64 cloud-amd64 rt-amd64 "${own_flavours[@]}")

# step NAME COMMAND...: run a command that takes a while. Its output goes to a
# log of the cache, whose end is shown when the command fails.
step()
{
	local name=$1 began=$EPOCHSECONDS log next status=0
	shift
	# As long as a file's name may be: some packages at once are more.
	log=${name//[^A-Za-z0-9.+-]/_}
	log=$HWTIMER_LOGS/${log:0:100}.$$.log

	say "$name"
	launch "$@" >"$log" 2>&1
	next=$((began + 10))
	while kill -0 "$launched" 2>/dev/null; do
		sleep 0.1
		((EPOCHSECONDS >= next)) || continue
		next=$((next + 10))
		say "$name: $((EPOCHSECONDS - began)) s$(last_words "$log")"
	done
	landed "$launched" || status=$?
	if ((status)); then
		tail -n 40 "$log" >&2
		say "$name: failed with status $status, all of it is in $log"
		return "$status"
	fi
	rm -f "$log"
}

# How far a log is: ", 217 lines, timer.o".
last_words()
{
	[[ ! -s $1 ]] || echo ", $(wc -l <"$1") lines, $(tail -n 1 "$1" | sed 's,.*/,,' | cut -c1-60)"
}

# locked NAME COMMAND...: one at a time on this machine, for this cache.
locked()
{
	local name=$1 lock
	shift
	exec {lock}>"$cache/lock/$name"
	flock -n "$lock" || {
		say "waiting for another run that holds $name"
		flock "$lock"
	}
	"$@" {lock}>&- || return
	exec {lock}>&-
}

# Bring the lists of packages up to date, once in a run of the scripts.
apt_update()
{
	[[ -z ${HWTIMER_UPDATED:-} && $EUID -eq 0 ]] || return 0
	export HWTIMER_UPDATED=1
	step "apt-get update" apt-get -qq -o DPkg::Lock::Timeout=600 update ||
		say "going on with the lists of packages that there are"
}

# The lists, should they be missing or older than two days.
apt_lists()
{
	command -v apt-get >/dev/null || die "this needs Debian's packages (apt-get)"
	[[ -n $(find /var/lib/apt/lists -maxdepth 1 -name '*_Packages*' \
		-exec test -s {} \; -print -quit 2>/dev/null) &&
	   -n $(find /var/lib/apt/lists /var/lib/apt/lists/partial -maxdepth 0 \
		-mtime -2 2>/dev/null) ]] || apt_update
}

# All packages that some script needs on Debian 12: who is not root gets to know
# them at once.
packages=(abigail-tools bc bison bpftrace coccinelle codespell cpio cppcheck
	debhelper dh-dkms dpkg-dev flex g++ gcc gcc-12 gcc-multilib gnuplot-nox graphviz
	libc6-dev libelf-dev libevent-dev libpython3-dev liburing-dev libsqlite3-dev
	libuv1-dev lcov lintian make mandoc mmdebstrap openssl pahole patch perl pkg-config
	python3 python3-prometheus-client python3-sphinx qemu-system-x86 rsync shellcheck
	sparse spin trace-cmd xz-utils)

# need PACKAGE...: have these packages installed.
need()
{
	local missing

	command -v dpkg-query >/dev/null || die "this needs Debian's packages: $*"
	mapfile -t missing < <(not_installed "$@")
	((${#missing[@]})) || return 0
	if ((EUID)); then
		mapfile -t missing < <(not_installed "$@" "${packages[@]}" | sort -u)
		die "packages are missing; run: sudo apt-get install --no-install-recommends ${missing[*]}"
	fi
	apt_lists
	apt-cache show "${missing[@]}" >/dev/null 2>&1 || apt_update
	apt_install "${missing[@]}" || {
		apt_update
		apt_install "${missing[@]}" || die "cannot install ${missing[*]}"
	}
}

not_installed()
{
	local package
	for package; do
		[[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] ||
			echo "$package"
	done
}

apt_install()
{
	step "installing $*" env DEBIAN_FRONTEND=noninteractive apt-get -y -q \
		-o DPkg::Lock::Timeout=600 install --no-install-recommends "$@"
}

# package_version PACKAGE: the version of it that apt would install.
package_version()
{
	local version

	version=$(apt-cache policy "$1" | awk '$1 == "Candidate:" { print $2 }')
	[[ -n $version && $version != "(none)" ]] || return 1
	echo "$version"
}

# unpacked PACKAGE VERSION PATH...: the directory in the cache that holds these
# paths of a Debian package, without installing it.
unpacked()
{
	local package=$1 dir=$cache/deb/$1_$2

	[[ -n $2 ]] || die "apt knows no $package; are its lists up to date?"
	[[ -d $dir ]] || locked "deb-$package" unpack "$dir" "$@"
	echo "$dir"
}

unpack()
{
	local dir=$1 package=$2 version=$3 temp
	shift 3

	[[ ! -d $dir ]] || return 0
	rm -rf "$dir".tmp.*
	temp=$dir.tmp.$$
	mkdir -p "$temp"
	step "fetching $package $version" download "$temp" "$package=$version" || {
		apt_update
		die "cannot download $package $version; if the archive has a newer one by now," \
		    "run apt-get update and this again"
	}
	dpkg --fsys-tarfile "$temp"/*.deb | tar -x -C "$temp" "${@/#/.\/}"
	rm "$temp"/*.deb
	mv "$temp" "$dir"
}

download()
{
	cd "$1" || return
	apt-get -q download "$2"
}

# copy_libraries DIR FILE...: what these are linked with, where they look for that, below DIR.
copy_libraries()
{
	local dir=$1 library

	shift
	ldd "$@" | awk '$1 ~ "^/lib" { print $1 } $3 ~ "^/(usr/)?lib" { print $3 }' | sort -u |
		while read -r library; do
			install -D "$library" "$dir$library"
		done
}

# tap_guest DIR ARGUMENT...: scripts/guest, its logs in DIR. If it fails, or its kernel's log
# is not as it should be, that is a case of its output, for scripts/tap-count; what was wrong,
# as much of it as is told in a line, is its name.
tap_guest()
{
	local dir=$1

	shift
	"$scripts/guest" -o "$dir" "$@" || {
		printf '%s\n' "# BEGIN guest" "1..1"
		{ cat "$dir/complaints" || echo "it did not run"; } 2>/dev/null |
			tr '#' '%' | paste -s -d '|' | cut -c-1000 | sed 's/^/not ok 1 /'
		echo "# END guest 0"
	} >>"$dir/output.log"
}
