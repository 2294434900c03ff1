# One non-recursive Makefile; `make help` lists its targets. Each flavour,
# BUILD=release|debug|asan|tsan|fuzz|cov, lives beside the others in build/.
# Sources are found by their place in the tree: a new file needs no line here.

VERSION := $(shell sed -n 's/.* KVPOOL_VERSION "\(.*\)"/\1/p' lib/kvpool.h)
BUILD ?= release
O := build$(if $(filter-out release,$(BUILD)),/$(BUILD))
Q := $(if $(filter 1,$(V)),,@)
JOBS ?= $(shell nproc)
FUZZ_TIME ?= 30
CC := $(if $(filter fuzz,$(BUILD)),clang-14,gcc)

PREFIX ?= /usr/local
BINDIR ?= $(PREFIX)/bin
SBINDIR ?= $(PREFIX)/sbin
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
MANDIR ?= $(PREFIX)/share/man
COMPDIR ?= $(PREFIX)/share/bash-completion/completions

# Sanitizer flags are not in CFLAGS, so CFLAGS=-O3 does not switch them off.
CFLAGS ?= -g
WERROR ?= -Werror
WARN := -Wall -Wextra $(WERROR) -Wshadow -Wstrict-prototypes -Wundef \
	-Wmissing-prototypes -Wold-style-definition -Wpointer-arith -Wcast-qual \
	-Wvla -Wwrite-strings -Wformat=2 -Wconversion -Wno-sign-conversion
FLAVOUR_release := -O2 -D_FORTIFY_SOURCE=2
FLAVOUR_debug := -O0 -DKV_FAULTS
FLAVOUR_asan := -O1 -DKV_FAULTS -fsanitize=address,undefined \
	-fno-sanitize-recover=all -fno-omit-frame-pointer
FLAVOUR_tsan := -O1 -DKV_FAULTS -fsanitize=thread
FLAVOUR_fuzz := $(FLAVOUR_asan) -fsanitize=fuzzer-no-link
FLAVOUR_cov := -O0 -DKV_FAULTS --coverage -fprofile-update=atomic
FLAVOUR := $(or $(FLAVOUR_$(BUILD)),$(error BUILD=$(BUILD): no such flavour))
KV_CPPFLAGS := -D_GNU_SOURCE -Ilib -I.
KV_CFLAGS := -std=gnu11 $(WARN) -fPIC -fvisibility=hidden -pthread \
	-fstack-protector-strong -fno-strict-aliasing $(FLAVOUR)
COMPILE = $(CC) $(KV_CPPFLAGS) $(CPPFLAGS) $(KV_CFLAGS) $(CFLAGS)
LINK = $(Q)$(COMPILE) $(LDFLAGS) -o $@ $(filter %.o,$^) $(filter %.a,$^)
SO_LIBS := -lpcre2-8 -lxxhash -lpthread -ldl
LIBS := -lmicrohttpd -lcjson $(SO_LIBS)

# RDMA is built where its headers are, whole or not at all; empty: not.
WITH_RDMA ?= $(shell $(CC) $(CPPFLAGS) -include infiniband/verbs.h \
	-include rdma/rdma_cma.h -E -x c /dev/null >/dev/null 2>&1 && echo yes)
NO_RDMA := $(if $(WITH_RDMA),lib/xfer/rdma_none.c,$(filter-out %_none.c,\
	$(wildcard lib/xfer/rdma*.c tests/unit/*/test_rdma*.c \
	tests/unit/xfer/test_hca*.c tests/unit/xfer/test_rail*.c \
	tests/mock/hca*.c tests/mock/rdma*.c tests/mock/rail*.c \
	tests/sim/*rail*.c tests/bench/bench_slice.c)))

# The shared library leaves out what only the daemons and programs need.
LIB := $(filter-out lib/python/% $(NO_RDMA),$(wildcard lib/*/*.c))
SO := $(filter-out lib/http/% lib/cli/% lib/disk/% lib/svc/admin% \
	lib/svc/daemon.c lib/svc/doctor% lib/svc/masterd.c,$(LIB))
# A program is cmd/PROG.c and, if it has more parts, cmd/PROG_*.c.
CMD := $(wildcard cmd/*.c)
# What tests share is an archive, so that each test links what it uses.
SHARED := $(filter-out tests/lib/fuzz_main.c tests/sim/test_% $(NO_RDMA),\
	$(wildcard tests/lib/*.c tests/mock/*.c tests/sim/*.c))
SRC := $(LIB) $(CMD) $(wildcard tests/unit/*/*.c) \
	$(filter-out tests/api/%,$(wildcard tests/*/*.c))
HEADERS := $(wildcard lib/*.h lib/*/*.h cmd/*.h)
PROGS := $(patsubst cmd/%.c,$O/%,$(filter-out $(wildcard cmd/*_*.c),$(CMD)))
UNIT := $(patsubst %.c,$O/%,\
	$(filter-out $(NO_RDMA),$(wildcard tests/unit/*/test_*.c)))
SIM := $(patsubst %.c,$O/%,\
	$(filter-out $(NO_RDMA),$(wildcard tests/sim/test_*.c)))
FUZZ := $(patsubst %.c,$O/%,$(wildcard tests/fuzz/fuzz_*.c))
IT := $(patsubst %.c,$O/%,\
	$(wildcard tests/it/*.c tests/promise/*.c tests/vm/*.c))
BENCH := $(patsubst %.c,$O/%,\
	$(filter-out $(NO_RDMA),$(wildcard tests/bench/bench_*.c)))
SLICE := $(filter %/bench_slice,$(BENCH))
.PHONY: all check check-unit check-asan check-tsan check-valgrind check-long \
	check-vm tests tests-long demo bench cover fuzz lint tidy format install \
	uninstall clean help FORCE
.DELETE_ON_ERROR:
all: $O/libkvpool.a $O/libkvpool.so $(PROGS)	## programs and libraries

$O/%.o: %.c $O/.flags
	@mkdir -p $(@D)
	$(Q)$(COMPILE) -MMD -MP -c -o $@ $<
$O/tests/%.o: private KV_CPPFLAGS += -Itests/lib -Itests/sim -Itests/mock
# Other flags rebuild every object, another list of files the libraries.
$O/.flags: STAMP = $(COMPILE) $(LDFLAGS)
$O/.files: STAMP = $(LIB) $(SHARED)
$O/.flags $O/.files: FORCE
	@mkdir -p $(@D)
	@echo '$(STAMP)' | cmp -s - $@ || echo '$(STAMP)' >$@

$O/libkvpool.a: $(LIB:%.c=$O/%.o) $O/.files
$O/libtest.a: $(SHARED:%.c=$O/%.o) $O/.files
$O/libkvpool.a $O/libtest.a:
	$(Q)rm -f $@ && $(AR) rcs $@ $(filter %.o,$^)
$O/libkvpool.so: $(SO:%.c=$O/%.o) $O/.files
	$(LINK) -shared -Wl,-soname,libkvpool.so.0 -Wl,-z,defs $(SO_LIBS)
$(PROGS): $O/%: $O/cmd/%.o $O/libkvpool.a
	$(LINK) $(LIBS)
parts = $(patsubst %.c,$O/%.o,$(filter $1_%.c,$(CMD)))
$(foreach p,$(PROGS),$(eval $p: $(call parts,$(p:$O/%=cmd/%))))
$(UNIT) $(SIM) $(IT) $(BENCH): $O/%: $O/%.o $O/libtest.a $O/libkvpool.a
	$(LINK) -lcmocka $(LIBS)
FUZZ_MAIN := $(if $(filter-out fuzz,$(BUILD)),$O/tests/lib/fuzz_main.o)
$(FUZZ): $O/%: $O/%.o $(FUZZ_MAIN) $O/libtest.a $O/libkvpool.a
	$(LINK) $(if $(FUZZ_MAIN),,-fsanitize=fuzzer) $(LIBS)

# The sanitizers of gcc 12 want a memory layout that is not randomized far.
PROVE = env -u MAKEFLAGS -u MFLAGS BUILD=$(BUILD) KV_BIN=$O \
	CMOCKA_MESSAGE_OUTPUT=TAP UBSAN_OPTIONS=print_stacktrace=1 \
	$(if $(filter asan tsan,$(BUILD)),$(UNRANDOM)) prove -j$(JOBS)
UNRANDOM = $$(setarch -R true 2>/dev/null && echo setarch -R)
SUB = +$(Q)$(MAKE) --no-print-directory \
	$(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(JOBS))

check check-asan check-tsan:	## all tests; all of them, sanitized
	$(Q)scripts/setup check
	$(SUB) $(patsubst check-%,BUILD=%,$(filter-out check,$@)) tests
check-valgrind:	## unit tests under memcheck
	$(Q)scripts/setup check valgrind
	$(SUB) BUILD=debug EXEC='$(MEMCHECK)' check-unit
MEMCHECK := valgrind -q --leak-check=full --error-exitcode=99
check-unit: $(UNIT)	## unit tests only
	$(Q)$(if $(UNIT),$(PROVE) -e '$(EXEC)' $(UNIT))
check-vm:	## real verbs in a guest of QEMU; VM=short: the main ones
	$(Q)scripts/setup check vm
	$(SUB) all $(filter $O/tests/vm/%,$(IT))
	$(Q)$(PROVE) -j1 -e '' \
		$(wildcard tests/vm/$(if $(filter short,$(VM)),[0-4]0)*.t)
check-long:	## 10,000 simulated pools, long promises, a soak
	$(Q)scripts/setup check
	$(SUB) tests-long
tests-long: all $(SIM) $(IT)
	$(Q)SIM_SEEDS=10000 KV_LONG=1 $(PROVE) -e '' $(SIM) \
		$(wildcard tests/it/7*.t)
	$(Q)$(PROVE) -e '' $(wildcard tests/long/*.t)
tests: all $(UNIT) $(SIM) $(FUZZ) $(IT) $(SLICE)
	$(Q)$(PROVE) -e '' $(UNIT) $(SIM) $(FUZZ) $(wildcard tests/it/*.t)
demo:		## the newcomer's tour: a master, two nodes, real files
	$(Q)scripts/setup build && echo 'demo: building, up to a minute...'
	$(SUB) all
	$(Q)KV_BIN=$O scripts/demo
bench: all $(BENCH)	## microbenchmarks
	$(Q)set -e; for b in $(BENCH); do $$b; done
	$(Q)$(if $(SLICE),! command -v valgrind >/dev/null || \
		scripts/slice-cost $O)
cover:		## line coverage of the tests
	$(Q)scripts/setup check cover
	$(SUB) BUILD=cov tests
	$(Q)gcovr --root . --filter lib/ --filter cmd/ build/cov
fuzz:		## each fuzzer for FUZZ_TIME=30 seconds
	$(Q)scripts/setup build fuzz
	$(SUB) BUILD=fuzz run-fuzz
run-fuzz: $(FUZZ)
	$(Q)set -e; for f in $(notdir $(FUZZ)); do mkdir -p $O/corpus/$$f; \
		$O/tests/fuzz/$$f -max_total_time=$(FUZZ_TIME) -timeout=10 \
		-artifact_prefix=tests/corpus/$$f/ $O/corpus/$$f \
		tests/corpus/$$f; done

C_FILES = $(SRC) $(HEADERS) $(wildcard tests/*/*.h tests/api/*.c)
SCRIPTS = .ci/run $(wildcard scripts/* tests/lib/*.sh tests/it/*.t \
	tests/long/*.t) $(filter-out %.c,$(wildcard tests/vm/*))
MANUALS = $(wildcard man/*.[1-8])
LINTS := $(addprefix lint-,layers symbols man proto format cppcheck shell mdoc)
lint:		## all checks of sources, scripts and manuals
	$(Q)scripts/setup lint
	$(SUB) -k run-lint
run-lint: $(HEADERS:%=$O/%.ok) $(LINTS)
$O/%.h.ok: %.h $(HEADERS) $O/.flags
	@mkdir -p $(@D)
	$(Q)$(COMPILE) -fsyntax-only -x c $< && touch $@
lint-symbols lint-man: all
lint-layers lint-symbols lint-man lint-proto:
	$(Q)scripts/check-$(@:lint-%=%) $O
lint-format: ; $(Q)clang-format-14 --dry-run --Werror $(C_FILES)
lint-cppcheck:
	$(Q)cppcheck -q --enable=warning,performance,portability \
		--suppressions-list=.cppcheck --inline-suppr --library=posix \
		--error-exitcode=1 -D__cppcheck__ $(KV_CPPFLAGS) -Itests/lib \
		$(filter %.c,$(C_FILES))
lint-shell: ; $(Q)shellcheck $(SCRIPTS)
lint-mdoc: ; $(Q)mandoc -T lint -W warning $(MANUALS)
tidy:		## clang-tidy and gcc -fanalyzer; both must be silent
	$(Q)scripts/setup tidy
	$(SUB) -k run-tidy
# What gcc's analyzer does not see through embedded nodes, and clang-tidy does.
NOT_SEEN := -Wno-analyzer-null-dereference -Wno-analyzer-malloc-leak
run-tidy: $(patsubst %,$O/%.tidy,$(LIB) $(CMD))
$O/%.c.tidy: %.c $(HEADERS) .clang-tidy $O/.flags
	@mkdir -p $(@D)
	$(Q)clang-tidy-14 --quiet $< -- -std=gnu11 $(KV_CPPFLAGS) 2>$@.err || \
		{ cat $@.err; false; }
	$(Q)$(COMPILE) -fanalyzer $(NOT_SEEN) -c -o $@ $<
format:		## clang-format in place
	$(Q)scripts/setup format
	$(Q)clang-format-14 -i $(C_FILES)

# What install makes, each MODE:source:target or ln:to:link; uninstall, too.
target = $(if $(filter kvmaster kvclient,$1),$(SBINDIR),$(BINDIR))/$1
INSTALLED = 644:lib/kvpool.h:$(INCLUDEDIR)/kvpool.h \
	644:$O/libkvpool.a:$(LIBDIR)/libkvpool.a \
	755:$O/libkvpool.so:$(LIBDIR)/libkvpool.so.0 \
	ln:libkvpool.so.0:$(LIBDIR)/libkvpool.so \
	$(foreach d,master client,ln:kv$d:$(SBINDIR)/mooncake_$d \
		644:scripts/completion.bash:$(COMPDIR)/mooncake_$d) \
	$(foreach p,$(PROGS:$O/%=%),755:$O/$p:$(call target,$p) \
		644:scripts/completion.bash:$(COMPDIR)/$p) \
	$(foreach m,$(MANUALS),\
		644:$m:$(MANDIR)/man$(subst .,,$(suffix $m))/$(notdir $m))
D := $(DESTDIR)$(LIBDIR)
install: all	## to PREFIX=/usr/local, below DESTDIR
	$(Q)set -e; mkdir -p "$D/pkgconfig"; for i in $(INSTALLED); do \
		to="$(DESTDIR)$${i##*:}"; i=$${i%:*}; mkdir -p "$${to%/*}"; \
		case $$i in ln:*) ln -sf "$${i#*:}" "$$to" ;; \
		*) install -m "$${i%%:*}" "$${i#*:}" "$$to" ;; esac; done
	$(Q)printf '%s\n' 'prefix=$(PREFIX)' 'libdir=$(LIBDIR)' \
		'includedir=$(INCLUDEDIR)' '' \
		'Name: kvpool' 'Version: $(VERSION)' \
		'Description: pooled cache for KV blocks of LLM inference' \
		'Cflags: -I$${includedir}' 'Libs: -L$${libdir} -lkvpool' \
		'Libs.private: $(LIBS)' >"$D/pkgconfig/kvpool.pc"
	$(Q)[ "$(DESTDIR)" ] || [ $$(id -u) -ne 0 ] || ldconfig || :
uninstall:	## removes what install put there
	$(Q)for i in $(INSTALLED); do rm -f "$(DESTDIR)$${i##*:}"; done
	$(Q)rm -f "$D/pkgconfig/kvpool.pc"
clean:		## removes build/
	rm -rf build
help:		## this list
	@sed -n 's/^\([a-z][a-z -]*\):.*## \(.*\)/\1\t\2/p' Makefile | expand -t 32
-include $(wildcard $(SRC:%.c=$O/%.d))
