#!/bin/sh
# Fetches real ARM programs (Debian armel: ARMv5TE, soft float) for the tests that
# run them, and unpacks them under DIR.  Nothing of it is committed.
#
#     tools/fetch-armel.sh [DIR]                   default: target/armel
#     PMAPLAB_ARMEL=DIR cargo test -p tests        default: target/armel
#
# It needs apt-get and dpkg-deb, and uses the machine's own apt sources: the
# archive that those name, its suite `bookworm` (the last with armel), in a private
# apt root, so that the machine's package lists and architectures stay as they are.
# Where there is no such source or no network it fails with a message, and the
# tests say that they skip.
set -eu

dir=${1:-$(dirname "$0")/../target/armel}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- mksh busybox-static bash-static sash klibc-utils libklibc dash libc6 libgcc-s1
suite=bookworm

fail() {
	echo "fetch-armel.sh: $*" >&2
	exit 1
}
command -v apt-get > /dev/null || fail "needs apt-get"
command -v dpkg-deb > /dev/null || fail "needs dpkg-deb"

mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
apt=$dir/.apt
mkdir -p "$apt/parts" "$apt/state/lists/partial" "$apt/cache/archives/partial" "$apt/debs"

# The first Debian archive among the machine's sources, for another architecture.
sources=/etc/apt/sources.list.d/debian.sources
if [ -r "$sources" ]; then
	awk 'BEGIN { RS = "" } NR == 1' "$sources" |
		sed -e '/^Suites:/d' -e '/^Architectures:/d' -e '/^#/d' > "$apt/parts/armel.sources"
	printf 'Suites: %s\nArchitectures: armel\n' "$suite" >> "$apt/parts/armel.sources"
elif [ -r /etc/apt/sources.list ]; then
	awk -v suite="$suite" '$1 == "deb" {
		at = 2
		if ($2 ~ /^\[/) { while ($at !~ /\]$/) at++; at++ }
		print "deb [arch=armel] " $at " " suite " main"
		exit
	}' /etc/apt/sources.list > "$apt/parts/armel.list"
else
	fail "no apt sources on this machine"
fi

apt_get() {
	apt-get -qq -o APT::Architecture=armel -o APT::Architectures=armel \
		-o Dir::State="$apt/state" -o Dir::State::status=/dev/null \
		-o Dir::Cache="$apt/cache" -o Dir::Etc::sourcelist=/dev/null \
		-o Dir::Etc::sourceparts="$apt/parts" -o APT::Sandbox::User=root "$@"
}
apt_get update || fail "no package lists for armel"
rm -f "$apt"/debs/*.deb
(cd "$apt/debs" && apt_get download "$@") || fail "could not fetch: $*"
for deb in "$apt"/debs/*.deb; do
	dpkg-deb -x "$deb" "$dir"
done
# Packages only: what is needed again is fetched again.
rm -rf "$apt"

find "$dir" -type f \( -path '*/bin/*' -o -path '*/sbin/*' \) | sed "s|^$dir||" | sort
