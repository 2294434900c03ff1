#!/bin/sh
# What is installed suffices to build and run a program, with the shared and
# with the static library; and nothing of it is left by uninstall.
# shellcheck disable=SC2046,SC2086 # several words
. "$(dirname "$0")/../lib/tap.sh"
require gcc make pkg-config
. "$(dirname "$0")/../lib/cluster.sh"

root=$T/root
lib=$root/usr/lib
mkdir -p "$root/usr/bin" && echo >"$root/usr/bin/other"

# What is built is installed: nothing is built again under another test.
installed()
{
	make -C "$TOP" -o all BUILD="${BUILD:-release}" PREFIX=/usr \
		DESTDIR="$root" "$1"
}

ok 'make install' installed install
for file in bin/kvput bin/kvget bin/kvrm bin/kvdiag bin/kvbench sbin/kvmaster \
	sbin/kvclient include/kvpool.h lib/libkvpool.a lib/libkvpool.so \
	lib/libkvpool.so.0 lib/pkgconfig/kvpool.pc \
	share/bash-completion/completions/kvput \
	share/bash-completion/completions/mooncake_master; do
	ok "there is $file" test -f "$root/usr/$file"
done
for link in sbin/mooncake_master:kvmaster sbin/mooncake_client:kvclient \
	lib/libkvpool.so:libkvpool.so.0; do
	is "$(readlink "$root/usr/${link%:*}")" "${link#*:}" \
		"${link%:*} is a link"
done
ok 'which runs' "$root/usr/sbin/mooncake_master" --version
is "$(cut -d' ' -f1 "$T/out")" mooncake_master 'by its name'
ok 'again, over what is there' installed install
for page in "$TOP"/man/*.[1-8]; do
	ok "there is ${page##*/}" cmp "$page" \
		"$root/usr/share/man/man${page##*.}/${page##*/}"
done
ok 'installed programs run' "$root/usr/bin/kvput" --version

export PKG_CONFIG_SYSROOT_DIR="$root" PKG_CONFIG_LIBDIR="$lib/pkgconfig"
export PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 PKG_CONFIG_ALLOW_SYSTEM_LIBS=1
export LD_LIBRARY_PATH="$lib"
ok 'pkg-config finds it' pkg-config --exists kvpool
is "$(pkg-config --modversion kvpool)" \
	"$(sed -n 's/.*KVPOOL_VERSION "\(.*\)"/\1/p' "$root/usr/include/kvpool.h")" \
	'pkg-config tells the version'
is "$(pkg-config --variable=prefix kvpool)" "$root/usr" 'and the prefix'

case ${BUILD:-release} in
asan) flavour='-fsanitize=address,undefined' ;;
tsan) flavour='-fsanitize=thread' ;;
cov) flavour='--coverage' ;;
*) flavour= ;;
esac
# The static library, and nothing else of ours.
static=$(pkg-config --static --libs kvpool | sed 's/-lkvpool/-l:libkvpool.a/')

# build PROGRAM KIND LIBS...
build()
{
	build_source=$TOP/tests/api/$1.c
	build_program=$T/$1-$2
	shift 2
	gcc -std=gnu11 -g -O1 -Wall -Wextra -Werror $flavour \
		$(pkg-config --cflags kvpool) -o "$build_program" \
		"$build_source" "$@"
}

for program in store inproc xfer rank deadline; do
	ok "$program: build with the shared library" \
		build $program shared $(pkg-config --libs kvpool)
	ok "$program: build with the static library" \
		build $program static $static -pthread
done
ok 'the shared one is used' sh -c "ldd '$T/store-shared' | grep -q '$lib/lib'"
not_ok 'the static one is used' \
	sh -c "ldd '$T/store-static' | grep -q libkvpool"

# The example of the manual.
sed -n '/^#include <kvpool/,/^}/{s/\\e/\\/g;p;}' \
	"$root/usr/share/man/man3/libkvpool.3" >"$T/example.in"
# example MASTER
example()
{
	sed "s/127\.0\.0\.1:50051/$1/" "$T/example.in" >"$T/example.c"
	gcc -std=gnu11 -Wall -Wextra -Werror $flavour \
		$(pkg-config --cflags kvpool) -o "$T/example" "$T/example.c" \
		$(pkg-config --libs kvpool) && "$T/example"
}

# kvpool.h is for any C.
for std in c99 gnu11 gnu17; do
	echo '#include <kvpool.h>' >"$T/header.c"
	ok "kvpool.h is $std" gcc -std=$std -pedantic-errors -Wall -Wextra \
		-Werror $(pkg-config --cflags kvpool) -fsyntax-only "$T/header.c"
done

start_master m
start_client a
start_client b
wait_nodes 2
for kind in shared static; do
	ok "objects, $kind" "$T/store-$kind" "$MASTERS" "$(socket a)" \
		"$(addr b)"
	ok "embedded node, $kind" "$T/inproc-$kind" "$MASTERS" "$T/pool-$kind"
	wait_nodes 2
	ok "raw transfers, $kind" "$T/xfer-$kind"
	ok "raw transfers over TCP, $kind" "$T/xfer-$kind" no-attach
done
ok 'the example of libkvpool.3' example "$MASTERS"
is "$(cat "$T/out")" 'put: ok, 1 copies
get: ok, 2097152 bytes' 'says what it should'
end_all

MASTERS=
start_master alone
start_client only
wait_nodes 1
for kind in shared static; do
	ok "deadlines, $kind" "$T/deadline-$kind" "$MASTERS" "$(pid_of only)"
	wait_nodes 1
done
end_all

ok 'make uninstall' installed uninstall
is "$(cd "$root" && find . ! -type d)" ./usr/bin/other 'nothing of it is left'
done_testing
