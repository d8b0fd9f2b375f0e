# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
#
# shellcheck disable=SC2034 # used by those who source it
# Functions that the scripts share. Source this after `set -euo pipefail`. The lines of a script
# that begin with "#:" are its help.

# What would change the tree that is tested, files in guests, or what a sanitizer reports.
unset CDPATH GIT_DIR GIT_INDEX_FILE GIT_WORK_TREE ASAN_OPTIONS LSAN_OPTIONS TSAN_OPTIONS UBSAN_OPTIONS
umask 022
scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
self=$(realpath "$0")
root=$(dirname "$scripts")
cache=${XDG_CACHE_HOME:-~/.cache}/hwtimer	# ~ needs no $HOME
jobs=$(nproc)
export HWTIMER_STARTED=${HWTIMER_STARTED:-$EPOCHSECONDS}
export LC_ALL=C
unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES	# of a make that runs the script
# The log directory of this run, shared with the scripts that this script calls.
owner=${HWTIMER_LOGS:+no}
export HWTIMER_LOGS=${HWTIMER_LOGS:-$cache/log/$(date +%Y%m%d-%H%M%S).$$}
# Cached answers of apt in this run.
export HWTIMER_ASKED=${HWTIMER_ASKED:-$HWTIMER_LOGS/asked}
# usage: print the help of the script
usage()
{
	sed -n 's/^#: \{0,1\}//p' "$0"
}

# misuse TEXT...: report wrong usage, print the help, and exit with status 2
misuse()
{
	printf '%s: %s\n' "${0##*/}" "$*" >&2
	usage >&2
	exit 2
}

# common_option: handle what getopts has found and a script does not: -h, and mistakes
common_option()
{
	# shellcheck disable=SC2154 # getopts sets it
	case $option in
	h) usage; exit 0 ;;
	:) misuse "-$OPTARG takes a value" ;;
	*) misuse "no such option: -$OPTARG" ;;
	esac
}

# die TEXT...: report an error, and exit with status 1
die()
{
	printf '%s: %s\n' "${0##*/}" "$*" >&2
	exit 1
}

# Other characters are special to make, apt, QEMU, sed or the shell.
[[ $root$cache =~ ^[A-Za-z0-9/._+~@=$'\x80'-$'\xff'-]*$ && $cache == /* ]] ||
	die "the paths '$root' and '$cache' must be absolute, of letters, digits and /._+~@=- only"
mkdir -p "$HWTIMER_LOGS" "$HWTIMER_ASKED" "$cache"/{lock,log,passed} || die "no directory for the cache: $cache"
# Ignore errors: another script may be deleting the same files.
find "$cache/log" -mindepth 1 -maxdepth 1 -mtime +2 -exec rm -rf {} + 2>/dev/null || true
find "$cache/passed" -type f -mtime +30 -delete 2>/dev/null || true

# say TEXT...: show the progress, on stderr, since stdout has the results
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

# mark_of TEXT FILE...: print the path of the cache file that records that a check has passed. Use
# it only for checks whose result depends on nothing but TEXT, the contents of the FILEs, the script
# and lib.sh.
mark_of()
{
	local digest
	digest=$(echo "${0##*/} $1"
		sha256sum "$self" "$scripts/lib.sh" "${@:2}" | cut -d ' ' -f 1) ||
		die "cannot read what the check $1 depends on"
	digest=$(sha256sum <<<"$digest")
	echo "$cache/passed/${digest%% *}"
}

passed=0 failed=0 pattern='*' depends=() tried=() again=''

# try NAME COMMAND...: run a check, which passes if the command prints nothing and exits with status
# 0. A check whose name does not match the glob $pattern is left out. If the array $depends has
# arguments for mark_of(), a check that passed is not repeated until they change. $again is the
# command that takes NAME as an argument, to repeat the check, if there is one.
try()
{
	local name=$1 output mark='' status=0
	shift
	# shellcheck disable=SC2053 # it is a pattern
	[[ $name == $pattern ]] || return 0
	tried+=("$name")
	((!${#depends[@]})) || mark=$(mark_of "${depends[@]}")
	if [[ $mark && -e $mark ]]; then
		touch "$mark"
		echo "ok      $name, as before"
		passed=$((passed + 1))
		return
	fi
	output=$("$@" 2>&1) || status=$?
	if [[ -z $output && $status == 0 ]]; then
		[[ ! $mark ]] || touch "$mark"
		echo "ok      $name"
		passed=$((passed + 1))
	else
		echo "FAILED  $name, status $status"
		[[ ! $again ]] || echo "        again: $again '$name'"
		printf '%s\n' "$output" | sed 's/^/        /'
		failed=$((failed + 1))
	fi
}

# Process groups that this script started and that must not outlive it.
groups=() trapped=0

# end_groups: end the processes of these groups
end_groups()
{
	local group
	for group in "${groups[@]}"; do
		kill -TERM -- "-$group" 2>/dev/null || true
		kill -CONT -- "-$group" 2>/dev/null || true	# in case it is stopped
	done
}

# Temporary directories, removed on exit.
temporary=()

# temporary: create a temporary directory, $temp
temporary()
{
	temp=$(mktemp -d)
	temporary+=("$temp")
}

# at_exit: end what was started, and remove temporary files
at_exit()
{
	trap '' INT TERM
	end_groups
	rm -rf "${temporary[@]}"
	[[ $owner ]] || rm -rf "$HWTIMER_ASKED"
	[[ $owner ]] || rmdir "$HWTIMER_LOGS" 2>/dev/null || true
}

# end_on_signals: a signal may come twice, as make passes it on, and the second one ends what the
# first one runs: so each ends the groups itself
end_on_signals()
{
	trap 'end_groups; exit 130' INT
	trap 'end_groups; exit 143' TERM
}

trap at_exit EXIT
end_on_signals

# launch COMMAND...: start it in a process group of its own, as $launched.
launch()
{
	# A subshell does not inherit traps, and must end only the groups that it starts itself.
	if ((BASHPID != $$ && BASHPID != trapped)); then
		trapped=$BASHPID groups=()
		end_on_signals
	fi
	set -m
	"$@" </dev/null &
	set +m
	launched=$!
	groups+=("$launched")
}

# landed PID: wait for a process that launch started; returns its status
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

# measure GROUP: set $used to the CPU time of these processes, in seconds, and $wanted to that and how
# long they have been waiting for a CPU
measure()
{
	local pids pid

	read -r used pids < <(cat /proc/[0-9]*/stat 2>/dev/null | awk -v group="$1" '
		{ pid = $1; sub(/.*\) /, "") }
		$3 == group { ticks += $12 + $13 + $14 + $15; pids = pids " " pid }
		END { print int(ticks / 100) pids }')
	# Processes and threads may end meanwhile.
	wanted=$({ for pid in $pids; do cat "/proc/$pid"/task/*/schedstat; done 2>/dev/null || true; } |
		awk -v used="$used" '{ ns += $2 } END { print used + int(ns / 1e9) }')
}

# watch PID CPU_SECONDS SHOW FILE...: wait for the end of a process that launch started, and call SHOW
# now and then. Kill it once it has used so much CPU time, or if it hangs: for ten minutes it has
# written nothing to the FILEs and has needed a CPU for less than 30 s. On a busy machine it may take
# any time. Sets $overdue to the reason, or to nothing, and $used to its CPU time.
watch()
{
	local pid=$1 limit=$2 show=$3 polls=0 quiet=0 wanted before=0 size old_size=''
	shift 3
	overdue='' used=0
	while kill -0 "$pid" 2>/dev/null; do
		sleep 0.1
		((++polls % 100 == 0)) || continue
		measure "$pid"
		size=$(stat -L -c %s "$@")
		if [[ $size != "$old_size" ]] || ((wanted < before || wanted >= before + 30)); then
			old_size=$size before=$wanted quiet=0
		fi
		"$show"
		# Polls, not seconds: the machine may have been suspended.
		((used < limit)) || overdue="$limit s of CPU time were not enough"
		((++quiet <= 60)) || overdue="no output for ten minutes, and nothing to run"
		[[ ! $overdue ]] || kill -KILL -- "-$pid" 2>/dev/null || true
	done
}

# limited CPU_SECONDS COMMAND...: run it, but end it, with status 124, if watch does. Its output is a
# file.
limited()
{
	local limit=$1 out=/proc/$BASHPID/fd/1 pid status=0 overdue used
	shift
	launch "$@"
	pid=$launched
	watch "$pid" "$limit" true "$out"
	landed "$pid" 2>/dev/null || status=$?
	[[ $overdue ]] || return "$status"
	say "ended: $overdue: $*"
	return 124
}

# Kernels for QEMU: Debian's, those for other architectures, and our own, which have checkers.
own_flavours=(kasan)
flavours=(amd64 cloud-amd64 rt-amd64 cloud-arm64 686-pae "${own_flavours[@]}")
# Debian's, and the newest of other suites.
series_of_debian=(6.1 6.12 backports sid)

# arch_of FLAVOUR: the architecture, as Debian calls it, that a flavour is for.
arch_of()
{
	case $1 in
	*-arm64) echo arm64 ;;
	686-pae) echo i386 ;;
	*) echo amd64 ;;
	esac
}

# step NAME COMMAND...: run a command that takes a while. Its output goes to a log, whose end is
# shown if the command fails.
step()
{
	local name=$1 began=$EPOCHSECONDS log next status=0
	shift
	# Cut to the maximum length of a file name: a list of packages may be longer.
	log=${name//[^A-Za-z0-9.+-]/_}
	log=$HWTIMER_LOGS/${log:0:100}.$$.log

	say "$name"
	launch "$@" >"$log" 2>&1 || return
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
		say "$name: failed with status $status; the whole log is $log"
		return "$status"
	fi
	rm -f "$log"
}

# last_words LOG: print the progress that LOG shows, as in ", 217 lines, timer.o"
last_words()
{
	[[ ! -s $1 ]] || echo ", $(wc -l <"$1") lines, $(tail -n 1 "$1" | sed 's,.*/,,' | cut -c1-60)"
}

# locked NAME COMMAND...: run COMMAND, one at a time per NAME and cache.
locked()
{
	local name=$1 lock status=0
	shift
	exec {lock}>"$cache/lock/$name"
	flock -n "$lock" || {
		say "waiting for another run that holds $name"
		flock "$lock"
	}
	"$@" {lock}>&- || status=$?
	exec {lock}>&-
	return "$status"
}

# apt_update: update the package lists, once in a run of the scripts
apt_update()
{
	[[ -z ${HWTIMER_UPDATED:-} && $EUID -eq 0 ]] || return 0
	export HWTIMER_UPDATED=1
	step "apt-get update" apt-get -qq -o DPkg::Lock::Timeout=600 update ||
		say "cannot update the package lists: using the old ones"
	rm -f "$HWTIMER_ASKED"/*
}

# apt_lists: update the package lists if they are missing or more than two days old.
apt_lists()
{
	command -v apt-get >/dev/null || die "this needs Debian's packages (apt-get)"
	[[ -n $(find /var/lib/apt/lists -maxdepth 1 -name '*_Packages*' \
		-exec test -s {} \; -print -quit 2>/dev/null) &&
	   -n $(find /var/lib/apt/lists /var/lib/apt/lists/partial -maxdepth 0 \
		-mtime -2 2>/dev/null) ]] || apt_update
}

# codename: print the name of the Debian release that runs here, as in bookworm
codename()
{
	sed -n 's/^VERSION_CODENAME=//p' /etc/os-release
}

# suite_apt SUITE ARCH apt-get|apt-cache ARGUMENT...: run apt-get or apt-cache for another suite or
# architecture. For a backports suite the base suite is included. The lists are kept in the cache,
# and nothing is installed from them. SUITE "host" stands for this machine's own configuration.
suite_apt()
{
	local suite=$1 arch=$2 command=$3
	shift 3

	suite_lists "$suite" "$arch"
	if [[ $suite == host ]]; then
		"$command" "$@"
	else
		"$command" -c "$cache/apt/$suite-$arch/apt.conf" "$@"
	fi
}

# suite_lists SUITE ARCH: update the package lists of suite_apt unless they are less than two days
# old
suite_lists()
{
	local state=$cache/apt/$1-$2

	if [[ $1 == host ]]; then
		apt_lists
	elif [[ -z $(find "$state/updated" -mtime -2 2>/dev/null) ]]; then
		locked "apt-$1-$2" suite_update "$1" "$2" "$state"
	fi
}

# suite_update SUITE ARCH DIR: configure apt for this suite in DIR, and get the package lists
suite_update()
{
	local suite=$1 arch=$2 state=$3 mirror from
	local options="signed-by=/usr/share/keyrings/debian-archive-keyring.gpg"

	[[ -z $(find "$state/updated" -mtime -2 2>/dev/null) ]] || return 0
	apt_lists
	# shellcheck disable=SC2016 # apt replaces these
	mirror=$(apt-get indextargets --format '$(ORIGIN) $(CODENAME) $(COMPONENT) $(REPO_URI)' \
		'Created-By: Packages' | awk '$1 == "Debian" && $2 !~ /-/ && $3 == "main" { print $4; exit }')
	[[ -n $mirror ]] || die "apt is not configured for any Debian mirror"
	mkdir -p "$state"/{lists,archives}/partial
	touch "$state/status"
	# Accept an expired Release file.
	for from in "${suite%-backports}" "$suite"; do
		echo "deb [$options check-valid-until=no] $mirror $from main"
	done | sort -u >"$state/sources.list"
	cat >"$state/apt.conf" <<-END
	APT::Architecture "$arch";
	APT::Architectures { "$arch"; };
	APT::Default-Release "$suite";
	APT::Sandbox::User "";
	Dir::Etc::sourcelist "$state/sources.list";
	Dir::Etc::sourceparts "/dev/null";
	Dir::Etc::preferencesparts "/dev/null";
	Dir::State "$state";
	Dir::State::status "$state/status";
	Dir::Cache "$state";
	Dir::Cache::archives "$state/archives";
	Acquire::Languages "none";
	END
	step "package lists: $suite, $arch" apt-get -q -c "$state/apt.conf" \
		-o APT::Update::Error-Mode=any update || {
		[[ -e $state/updated ]] || die "cannot get the package lists of $suite for $arch"
		say "cannot update the package lists of $suite for $arch: using the old ones"
		return 0
	}
	touch "$state/updated"
}

# debian_sources SUITE: print sources for apt of this Debian release, from this machine's mirrors
debian_sources()
{
	local options=''

	apt_lists
	# Only sid has no suites of updates, and its Release file may have expired.
	[[ $1 != sid ]] || options="[check-valid-until=no] "
	apt-get indextargets --format "deb $options\$(REPO_URI) \$(RELEASE) \$(COMPONENT)" \
		"Created-By: Packages" "Origin: Debian" | sed "s/ $(codename)/ $1/" | grep -v ' sid-'
}

# make_debian SUITE PATH ARGUMENT...: install a minimal Debian as PATH, a directory or archive, by
# mmdebstrap with these arguments
make_debian()
{
	need mmdebstrap
	debian_sources "$1" >"$temp/sources"
	step "making a minimal Debian, $1" mmdebstrap --mode=root --variant=minbase "${@:3}" \
		"$1" "$2" "$temp/sources"
}

# inside COMMAND...: run it in the Debian of $debian, with mounts, processes and an environment of its
# own, but this machine's /dev and network. It sees the directory $shared, if set, at the same path.
shared=''
inside()
{
	# shellcheck disable=SC2016,SC2154 # the inner shell expands these; the caller sets $debian
	unshare --mount --pid --fork --kill-child env -i HOME=/root LC_ALL=C \
		DEBIAN_FRONTEND=noninteractive PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin sh -ec '
			cd "$1"
			[ ! "$2" ] || mount --bind "$2" ".$2"
			shift 2
			mount --rbind . .
			cd "$PWD"
			mount -t proc proc proc
			mount --rbind /dev dev
			pivot_root . mnt
			umount -l /mnt
			exec "$@"' sh "$debian" "$shared" "$@"
}

# need PACKAGE...: install these packages if they are missing; without root, print the command that
# does. Within scripts/test nothing is missing, or tests/groups is wrong.
need()
{
	local missing

	command -v dpkg-query >/dev/null || die "this needs Debian's packages: $*"
	mapfile -t missing < <(not_installed "$@")
	((${#missing[@]})) || return 0
	[[ ! ${HWTIMER_PACKAGES:-} ]] ||
		die "tests/groups does not name what ${HWTIMER_PART:-it} needs: ${missing[*]}"
	((!EUID)) ||
		die "packages are missing; run: sudo apt-get install --no-install-recommends ${missing[*]}"
	apt_lists
	apt-cache show "${missing[@]}" >/dev/null 2>&1 || apt_update
	apt_install "${missing[@]}" || {
		apt_update
		apt_install "${missing[@]}" || die "cannot install ${missing[*]}"
	}
}

# not_installed PACKAGE...: print those that are not installed
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

# asked SUITE ARCH ARGUMENT...: run apt-cache through suite_apt and cache the answer for this run
# (each call costs a second of CPU time).
asked()
{
	local answer

	answer=$HWTIMER_ASKED/$(sha256sum <<<"$*" | cut -c1-16)
	if [[ ! -s $answer ]]; then
		suite_apt "$1" "$2" apt-cache "${@:3}" >"$answer.$BASHPID" 2>/dev/null
		cat "$answer.$BASHPID"
		mv "$answer.$BASHPID" "$answer"
	else
		cat "$answer"
	fi
}

# package_version PACKAGE [SUITE ARCH]: print the version that apt would install
package_version()
{
	local version

	version=$(asked "${2:-host}" "${3:-}" policy "$1" | awk '$1 == "Candidate:" { print $2 }')
	[[ -n $version && $version != "(none)" ]] || return 1
	echo "$version"
}

# unpacked PACKAGE VERSION PATH...: unpack these paths of a Debian package, without installing it,
# and print the directory in the cache that has them
unpacked()
{
	unpacked_of host '' "$@"
}

# unpacked_of SUITE ARCH PACKAGE VERSION PATH...: like unpacked, by suite_apt.
unpacked_of()
{
	local arch=$2 package=$3 dir

	[[ $1 != host ]] || arch=''
	dir=$cache/deb/$3_${4#*:}${arch:+_$arch}	# no colon: it separates library paths
	[[ -n $4 ]] || die "apt knows no $package; are its lists up to date?"
	[[ -d $dir ]] || locked "deb-$package${arch:+-$arch}" unpack "$dir" "$@" || return
	echo "$dir"
}

# unpack DIR SUITE ARCH PACKAGE VERSION PATH...: unpack the paths to DIR, for unpacked_of
unpack()
{
	local dir=$1 suite=$2 arch=$3 package=$4 version=$5 temp
	shift 5

	[[ ! -d $dir ]] || return 0
	rm -rf "$dir".tmp.*
	temp=$dir.tmp.$$
	mkdir -p "$temp"
	step "fetching $package $version" download "$temp" "$suite" "$arch" "$package=$version" || {
		stale_lists "$suite" "$arch"
		die "cannot download $package $version; if the archive has a newer one by now," \
		    "run this again"
	}
	dpkg --fsys-tarfile "$temp"/*.deb | tar -x -C "$temp" "${@/#/.\/}" || return
	rm "$temp"/*.deb
	mv "$temp" "$dir"
}

# download DIR SUITE ARCH PACKAGE...: download packages to DIR
download()
{
	cd "$1" || return
	suite_apt "$2" "$3" apt-get -q download "${@:4}"
}

# stale_lists SUITE ARCH: refresh package lists that are out of date, now (host) or at their next
# use
stale_lists()
{
	if [[ $1 == host ]]; then
		apt_update
	else
		rm -f "$cache/apt/$1-$2/updated" "$HWTIMER_ASKED"/*
	fi
}

# postgresql DIR: unpack PostgreSQL's programs to DIR, because their package would start a server;
# set $bin to where they are, and install the libraries that they need
postgresql()
{
	local major version dir needed

	apt_lists
	version=$(package_version postgresql) || die "apt knows no postgresql"
	major=${version%%+*}
	# libllvm is for the compiler of queries.
	mapfile -t needed < <(asked host '' depends "postgresql-$major" |
		awk '$1 == "Depends:" && $2 ~ /^lib/ && $2 !~ /^libllvm/ { print $2 }')
	dir=$(unpacked "postgresql-$major" "$(package_version "postgresql-$major")" \
		"usr/lib/postgresql/$major" "usr/share/postgresql/$major") || return
	mkdir -p "$1"
	(cd "$dir" && find usr -name bitcode -prune -o ! -name 'llvmjit*' ! -type d -print0 |
		cpio -0 -p -d --quiet "$1") || return
	HWTIMER_PACKAGES='' need "${needed[@]}"	# depends on the release of Debian
	bin=$1/usr/lib/postgresql/$major/bin
}

# as_nobody COMMAND...: PostgreSQL refuses to run as root
as_nobody()
{
	if ((EUID)); then
		"$@"
	else
		setpriv --reuid=nobody --clear-groups "$@"
	fi
}

# postgresql_cluster DIR [OPTION]...: make a database cluster in DIR, below $temp, with these options
# of initdb
postgresql_cluster()
{
	mkdir "$1"
	((EUID)) || chown nobody "$1"
	chmod 755 "$temp"
	cd / && as_nobody "$bin/initdb" -A trust -U nobody --no-sync -D "$@" || return
	# Guests have no time zones.
	printf '%s\n' "timezone = GMT" "log_timezone = GMT" >>"$1/postgresql.conf"
}

# toolchain ARCH: set $arguments for the kernel's make, and $cc for programs, to build for ARCH. W=1
# is always set for other architectures, so that scripts/tests/machine and scripts/selftest share
# one build. The cross compilers and the libraries of their binutils are unpacked, not installed,
# because the packages conflict with gcc-multilib.
toolchain()
{
	local arch=$1 gnu linux dir

	arguments=() cc=gcc
	case $arch in
	amd64) return ;;
	i386)
		arguments=(ARCH=i386 W=1) cc="gcc -m32"
		return ;;
	arm64) gnu=aarch64-linux-gnu linux=arm64 ;;
	*) die "no compiler for $arch" ;;
	esac
	dir=$(cross "$arch" "$gnu")
	cc=$gnu-gcc-$(gcc -dumpversion)
	arguments=(ARCH="$linux" CROSS_COMPILE="$gnu-" CC="$cc" W=1)
	export PATH=$dir/usr/bin:$PATH
	export LD_LIBRARY_PATH=$dir/usr/lib/x86_64-linux-gnu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
}

# cross ARCH GNU: print the directory in the cache that has the compiler for ARCH, called GNU-gcc-N,
# of the same version N as this machine's gcc
cross()
{
	local arch=$1 gnu=$2 gcc version dir

	need gcc
	apt_lists
	gcc=gcc-$(gcc -dumpversion)
	version=$(package_version "$gcc-$gnu") || die "apt knows no $gcc-$gnu"
	dir=$cache/cross/${arch}_$version
	[[ -d $dir ]] || locked "cross-$arch" unpack_cross "$arch" "$gnu" "$dir" "${gcc#gcc-}" || return
	echo "$dir"
}

# unpack_cross ARCH GNU DIR N: unpack this compiler to DIR, unless it is there
unpack_cross()
{
	local arch=$1 gnu=$2 dir=$3 n=$4 temp=$3.tmp.$$ deb

	[[ ! -d $dir ]] || return 0
	rm -rf "$dir".tmp.*
	mkdir -p "$temp"
	step "fetching gcc for $arch" download "$temp" host '' "gcc-$n-$gnu" "cpp-$n-$gnu" \
		"binutils-$gnu" "libgcc-$n-dev-$arch-cross" "libgcc-s1-$arch-cross" \
		"libc6-$arch-cross" "libc6-dev-$arch-cross" "linux-libc-dev-$arch-cross" || {
		stale_lists host
		die "cannot download gcc for $arch; if the archive has a newer one by now, run this again"
	}
	for deb in "$temp"/*.deb; do
		dpkg -x "$deb" "$temp" || return
		rm "$deb"
	done
	mv "$temp" "$dir"
}

# copy_libraries DIR FILE...: copy the shared libraries that FILEs need to the same paths below DIR.
copy_libraries()
{
	local dir=$1 library

	shift
	ldd "$@" | awk '$1 ~ "^/lib" { print $1 } $3 ~ "^/(usr/)?lib" { print $3 }' | sort -u |
		while read -r library; do
			install -D "$library" "$dir$library"
		done
}

# tap_guest DIR ARGUMENT...: run scripts/guest/boot with its logs in DIR. If it fails, append a
# failed TAP case to the output. The name of the case is the complaint, on one line and shortened.
tap_guest()
{
	local dir=$1

	need perl	# for tap-count
	shift
	"$scripts/guest/boot" -o "$dir" "$@" || {
		printf '%s\n' '' "# BEGIN guest" "1..1"	# the last line may lack its end
		{ cat "$dir/complaints" || echo "it did not run"; } 2>/dev/null |
			tr '#' '%' | paste -s -d '|' | cut -c-1000 | sed 's/^/not ok 1 /'
		echo "# END guest 0"
	} >>"$dir/output.log"
}

# to_run OVERLAY CASE [ARGUMENT]...: let the guest of OVERLAY run this case of scripts/guest/run-case
to_run()
{
	cp "$scripts/guest/run-case" "$1"
	printf '#!/bin/busybox sh\nexec /run-case%s\n' "$(printf " '%s'" "${@:2}")" >"$1/run-tests"
	chmod +x "$1/run-tests"
}
