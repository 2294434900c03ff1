# kvpool: one non-recursive Makefile. `make` builds, `make check` tests,
# `make help` lists the targets. BUILD=debug|asan|tsan|fuzz|cov selects a
# flavour, which lives in build/<flavour>/; release lives in build/.
# Sources are found by their place in the tree: a new file needs no line here.

VERSION := 0.1.0
BUILD ?= release
O := build$(if $(filter-out release,$(BUILD)),/$(BUILD))
V ?= 0
Q := $(if $(filter 0,$(V)),@)
JOBS ?= $(shell nproc)
FUZZ_TIME ?= 30
CC := $(if $(filter fuzz,$(BUILD)),clang-14,gcc)
AR := ar

# Where `install` puts things.
PREFIX ?= /usr/local
BINDIR ?= $(PREFIX)/bin
SBINDIR ?= $(PREFIX)/sbin
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
MANDIR ?= $(PREFIX)/share/man
COMPDIR ?= $(PREFIX)/share/bash-completion/completions

# Sanitizer flags are not in CFLAGS, so CFLAGS=-O3 does not switch them off.
WERROR ?= -Werror
WARN := -Wall -Wextra $(WERROR) -Wshadow -Wstrict-prototypes \
	-Wmissing-prototypes -Wold-style-definition -Wvla -Wpointer-arith \
	-Wcast-qual -Wwrite-strings -Wundef -Wformat=2 -Wconversion \
	-Wno-sign-conversion -Wimplicit-fallthrough
FLAVOUR_release := -O2 -D_FORTIFY_SOURCE=2
FLAVOUR_debug := -O0 -DKV_FAULTS
FLAVOUR_asan := -O1 -DKV_FAULTS -fsanitize=address,undefined \
	-fno-sanitize-recover=all -fno-omit-frame-pointer
FLAVOUR_tsan := -O1 -DKV_FAULTS -fsanitize=thread
FLAVOUR_fuzz := $(FLAVOUR_asan) -fsanitize=fuzzer-no-link
FLAVOUR_cov := -O0 -DKV_FAULTS --coverage
FLAVOUR := $(or $(FLAVOUR_$(BUILD)),$(error BUILD=$(BUILD): no such flavour))
CFLAGS ?= -g
CPPFLAGS ?=
LDFLAGS ?=
KV_CPPFLAGS := -D_GNU_SOURCE -DKV_VERSION='"$(VERSION)"' -Ilib
KV_CFLAGS := -std=gnu11 $(WARN) -fPIC -fvisibility=hidden -pthread \
	-fstack-protector-strong -fno-strict-aliasing $(FLAVOUR)
COMPILE = $(CC) $(KV_CPPFLAGS) $(CPPFLAGS) $(KV_CFLAGS) $(CFLAGS)
SO_LIBS := -lpcre2-8 -lxxhash -lpthread
LIBS := -lmicrohttpd -lcjson $(SO_LIBS)

# The shared library leaves out what only the daemons and programs need.
SO_LAYERS := base event wire net mem xfer store svc
LIB_SRC := $(filter-out lib/python/%,$(wildcard lib/*/*.c))
SO_SRC := $(filter-out lib/svc/admin.c,\
	$(filter $(SO_LAYERS:%=lib/\%/%),$(LIB_SRC)))
CMD_SRC := $(wildcard cmd/*.c)
UNIT_SRC := $(wildcard tests/unit/*/test_*.c)
SIM_SRC := $(wildcard tests/sim/test_*.c)
FUZZ_SRC := $(wildcard tests/fuzz/fuzz_*.c)
IT_SRC := $(wildcard tests/it/*.c)
BENCH_SRC := $(wildcard tests/bench/bench_*.c)
# What tests share; as an archive, so that each test links what it uses.
SHARED_SRC := $(filter-out tests/lib/fuzz_main.c tests/sim/test_%,\
	$(wildcard tests/lib/*.c tests/mock/*.c tests/sim/*.c))
SRC := $(LIB_SRC) $(CMD_SRC) $(UNIT_SRC) $(SIM_SRC) $(FUZZ_SRC) $(IT_SRC) \
	$(BENCH_SRC) $(SHARED_SRC) $(wildcard tests/lib/fuzz_main.c)
OBJ := $(SRC:%.c=$O/%.o)

PROGS := $(CMD_SRC:cmd/%.c=$O/%)
UNIT := $(UNIT_SRC:%.c=$O/%)
SIM := $(SIM_SRC:%.c=$O/%)
FUZZ := $(FUZZ_SRC:%.c=$O/%)
BENCH := $(BENCH_SRC:%.c=$O/%)
TESTS := $(UNIT) $(SIM) $(FUZZ) $(wildcard tests/it/*.t)

.PHONY: all check check-unit check-asan check-tsan check-valgrind tests fuzz \
	run-fuzz bench lint tidy format cover demo install uninstall clean \
	help FORCE
.SECONDARY:
.DELETE_ON_ERROR:

all: $O/libkvpool.a $O/libkvpool.so $(PROGS)

$O/%.o: %.c $O/.flags
	@mkdir -p $(@D)
	$(Q)$(COMPILE) -MMD -MP -c -o $@ $<

$O/tests/%.o: private KV_CPPFLAGS += -Itests/lib -Itests/sim -Itests/mock

# Stamps: other flags rebuild every object, another file list the libraries.
$O/.flags: STAMP = $(COMPILE) $(LDFLAGS)
$O/.files: STAMP = $(LIB_SRC) $(SHARED_SRC)
$O/.flags $O/.files: FORCE
	@mkdir -p $(@D)
	@echo '$(subst ','"'"',$(STAMP))' | cmp -s - $@ || \
		echo '$(subst ','"'"',$(STAMP))' >$@

$O/libkvpool.a: $(LIB_SRC:%.c=$O/%.o) $O/.files
$O/libtest.a: $(SHARED_SRC:%.c=$O/%.o) $O/.files
$O/libkvpool.a $O/libtest.a:
	$(Q)rm -f $@ && $(AR) rcs $@ $(filter %.o,$^)

$O/libkvpool.so: $(SO_SRC:%.c=$O/%.o) $O/.files
	$(Q)$(COMPILE) $(LDFLAGS) -shared -Wl,-soname,libkvpool.so.0 \
		-Wl,-z,defs -o $@ $(filter %.o,$^) $(SO_LIBS)

$(PROGS): $O/%: $O/cmd/%.o $O/libkvpool.a
	$(Q)$(COMPILE) $(LDFLAGS) -o $@ $^ $(LIBS)

$(UNIT) $(SIM) $(IT_SRC:%.c=$O/%) $(BENCH): \
	$O/%: $O/%.o $O/libtest.a $O/libkvpool.a
	$(Q)$(COMPILE) $(LDFLAGS) -o $@ $^ -lcmocka $(LIBS)

FUZZ_MAIN := $(if $(filter fuzz,$(BUILD)),,$O/tests/lib/fuzz_main.o)
$(FUZZ): $O/%: $O/%.o $(FUZZ_MAIN) $O/libkvpool.a
	$(Q)$(COMPILE) $(LDFLAGS) $(if $(FUZZ_MAIN),,-fsanitize=fuzzer) \
		-o $@ $^ $(LIBS)

# The sanitizers of gcc 12 want a memory layout that is not randomized far.
UNRANDOM = $(if $(filter asan tsan,$(BUILD)),\
	$$(setarch -R true 2>/dev/null && echo setarch -R))
PROVE = env -u MAKEFLAGS -u MFLAGS -u BUILD KV_BIN=$O \
	CMOCKA_MESSAGE_OUTPUT=TAP UBSAN_OPTIONS=print_stacktrace=1 \
	TSAN_OPTIONS=second_deadlock_stack=1 $(UNRANDOM) prove -j$(JOBS)
PARALLEL = $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(JOBS))

check:
	$(Q)scripts/setup check
	$(Q)$(MAKE) --no-print-directory $(PARALLEL) tests
check-asan check-tsan:
	$(Q)scripts/setup check
	$(Q)$(MAKE) --no-print-directory $(PARALLEL) BUILD=$(@:check-%=%) tests
check-valgrind:
	$(Q)scripts/setup check valgrind
	$(Q)$(MAKE) --no-print-directory $(PARALLEL) BUILD=debug check-unit \
		EXEC='valgrind -q --leak-check=full --error-exitcode=99'
tests: all $(UNIT) $(SIM) $(FUZZ) $(IT_SRC:%.c=$O/%)
	$(Q)$(PROVE) -e '' $(TESTS)
check-unit: $(UNIT)
	$(Q)$(if $(UNIT),$(PROVE) -e '$(EXEC)' $(UNIT),:)

fuzz:
	$(Q)scripts/setup build fuzz
	$(Q)$(MAKE) --no-print-directory $(PARALLEL) BUILD=fuzz run-fuzz
run-fuzz: $(FUZZ)
	$(Q)set -e; for f in $(notdir $(FUZZ)); do \
		mkdir -p $O/corpus/$$f tests/corpus/$$f; \
		echo "$$f: $(FUZZ_TIME) s"; \
		$O/tests/fuzz/$$f -max_total_time=$(FUZZ_TIME) -timeout=10 \
			-verbosity=0 -print_final_stats=1 \
			-artifact_prefix=tests/corpus/$$f/ \
			$O/corpus/$$f tests/corpus/$$f; \
	done

clean:
	rm -rf build

-include $(wildcard $(OBJ:.o=.d))
