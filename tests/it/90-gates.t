#!/bin/sh
# Each gate of `make lint` that is a script of ours passes what is right and
# stops what is planted.
. "$(dirname "$0")/../lib/tap.sh"

mkdir -p "$T/scripts" "$T/lib/base" "$T/lib/net" "$T/lib/wire" "$T/cmd" \
	"$T/man" "$T/build"
cp "$TOP"/scripts/check-* "$T/scripts"
cd "$T" || exit 70

# said TEXT NAME: the gate's message has TEXT.
said()
{
	like "$(cat "$T/err")" "$1" "says: $1"
}

echo '#include "base/a.h"' >lib/net/n.c
echo '#include <stdint.h>' >lib/base/a.h
ok 'layers: right' scripts/check-layers
echo '#include "net/n.h"' >lib/base/b.c
not_ok 'layers: upwards' scripts/check-layers
said 'lib/base/b.c:1: base must not include net/n.h'
echo '#include "a.h"' >lib/base/b.c
not_ok 'layers: without layer' scripts/check-layers
said '"a.h" does not name its layer'
echo '#include <microhttpd.h>' >lib/base/b.c
not_ok 'layers: foreign library' scripts/check-layers
said 'base must not include <microhttpd.h>'
rm lib/base/b.c
mkdir lib/odd && : >lib/odd/o.c && echo >lib/odd/o.c
not_ok 'layers: unknown layer' scripts/check-layers
said 'lib/odd is not a layer'
rm -r lib/odd
echo >lib/net/a.h
not_ok 'layers: name twice' scripts/check-layers
said 'lib/net/a.h:1: the file name occurs in lib/base/a.h too'
rm lib/net/a.h

# build_lib FILE: makes it the only member of both libraries.
build_lib()
{
	gcc -fPIC -c -o "build/${1%.c}.o" "$1" &&
		rm -f build/libkvpool.a &&
		ar rc build/libkvpool.a "build/${1%.c}.o" &&
		gcc -shared -o build/libkvpool.so "build/${1%.c}.o"
}
cat >lib/kvpool.h <<'E'
#include <stddef.h>
typedef void kv_cb_fn(void *);
int kv_open(kv_cb_fn *fn, size_t n);
E
echo 'int kv_open(void *f, unsigned long n) { return f && n; }
__attribute__((visibility("hidden"))) int kv_foo_y(void) { return 1; }' \
	>foo_none.c
build_lib foo_none.c || exit 70
not_ok 'symbols: no manual' scripts/check-symbols
said 'kv_open is declared in lib/kvpool.h, but not in man/libkvpool.3'
echo '.It Fn kv_open , Fn kv_old' >man/libkvpool.3
not_ok 'symbols: a manual of another library' scripts/check-symbols
said 'kv_old is in man/libkvpool.3, but not declared in lib/kvpool.h'
echo '.It Fn kv_open' >man/libkvpool.3
ok 'symbols: right' scripts/check-symbols
echo '__attribute__((visibility("hidden"))) int kv_foobar(void) { return 1; }' \
	>>foo_none.c
build_lib foo_none.c || exit 70
ok 'symbols: what stands for several files' scripts/check-symbols
mv foo_none.c foo.c
build_lib foo.c || exit 70
not_ok 'symbols: what does not' scripts/check-symbols
said 'foo.c: kv_foobar does not start with kv_foo_'
sed '$d' foo.c >foo_none.c
build_lib foo_none.c || exit 70
mv foo_none.c foo_x.c
echo 'int kv_foo_whole(void) { return 1; }' >foo.c
gcc -fPIC -c -o build/foo.o foo.c && gcc -fPIC -c -o build/foo_x.o foo_x.c &&
	ar rc build/libkvpool.a build/foo.o build/foo_x.o || exit 70
ok 'symbols: a part' scripts/check-symbols
ar d build/libkvpool.a foo.o foo_none.o
not_ok 'symbols: a part of nothing' scripts/check-symbols
said 'foo_x.c: kv_foo_y does not start with kv_foo_x_'
mv foo_x.c foo_none.c
echo 'int kv_bar(void) { return 1; }' >>foo_none.c
build_lib foo_none.c || exit 70
not_ok 'symbols: foreign prefix, not public' scripts/check-symbols
said 'foo.c: kv_bar does not start with kv_foo_'
said 'kv_bar is exported by libkvpool.so, but not declared'
echo 'int kv_foo(void) { return 1; }' >foo_none.c
build_lib foo_none.c || exit 70
not_ok 'symbols: not exported' scripts/check-symbols
said 'kv_open is declared in lib/kvpool.h, but libkvpool.so does not'

: >cmd/kvfoo.c
cat >build/kvfoo <<'E'
#!/bin/sh
cat <<H
Usage: kvfoo [OPTION...]
  -a, --all=THING            all; not --else
      --both, --twin         two names
  -?, --help                 Give this help list
H
E
chmod +x build/kvfoo
not_ok 'man: no manual' scripts/check-man
said 'kvfoo has no manual'
cat >man/kvfoo.1 <<'E'
.It Fl a , Fl -all Ns = Ns Ar THING
See
.Fl -other .
.It Fl \-both , Fl -twin
E
ok 'man: right' scripts/check-man
echo '.It Fl -more' >>man/kvfoo.1
not_ok 'man: one option more' scripts/check-man
said 'man/kvfoo.1 has --more, kvfoo --help does not'
echo '.It Fl -all' >man/kvfoo.1
not_ok 'man: two options less' scripts/check-man
said 'kvfoo --help has --both, man/kvfoo.1 does not'
said 'kvfoo --help has --twin, man/kvfoo.1 does not'
echo "echo '$(printf '%081d' 0)'; echo oops >&2; exit 1" >>build/kvfoo
not_ok 'man: help of a bad kind' scripts/check-man
said 'does not exit with 0'
said 'writes to stderr'
said 'over 80 columns'

rm cmd/kvfoo.c
printf '#!/bin/sh\necho "  --a_b=int32   text"; echo "  --help"\n' \
	>build/kvmaster
chmod +x build/kvmaster
not_ok 'man: no manual of the other name' scripts/check-man
said 'mooncake_master has no manual'
echo '.It Fl -a_b Ns = Ns Ar N' >man/mooncake_master.8
ok 'man: right, of the other name' scripts/check-man
echo '.It Fl -a_c' >man/mooncake_master.8
not_ok 'man: another flag' scripts/check-man
said 'mooncake_master --help has --a_b, man/mooncake_master.8 does not'
said 'man/mooncake_master.8 has --a_c, mooncake_master --help does not'

cat >lib/wire/proto.def <<'E'
/* KV_MSG(number, NAME, struct, tail min, tail max, "text") */
KV_MSG(1, HELLO, kv_hello, 0, 9, "first, of all")
KV_MSG(129, HELLO_R, kv_hello_r, 0,
       9, "answer")
E
not_ok 'proto: no manual' scripts/check-proto
said 'man/kvproto.7 does not exist'
scripts/check-proto --print >man/kvproto.7
is "$(cat man/kvproto.7)" '.It 1 Ta HELLO Ta first, of all
.It 129 Ta HELLO_R Ta answer' 'proto: --print'
ok 'proto: right' scripts/check-proto
sed -i 's/answer/answers/' man/kvproto.7
not_ok 'proto: another text' scripts/check-proto
said 'message table differs'
done_testing
