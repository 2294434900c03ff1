# kvpool: one non-recursive Makefile. `make` builds, `make check` tests,
# `make help` lists the targets. BUILD=debug|asan|tsan|fuzz|cov selects a
# flavour, which lives in build/<flavour>/; release lives in build/.

BUILD ?= release
O := build$(if $(filter-out release,$(BUILD)),/$(BUILD))
V ?= 0
Q := $(if $(filter 0,$(V)),@)
CC := gcc
AR := ar

WARN := -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes \
	-Wmissing-prototypes -Wold-style-definition -Wvla -Wpointer-arith \
	-Wcast-qual -Wwrite-strings -Wundef -Wformat=2 -Wconversion \
	-Wno-sign-conversion -Wimplicit-fallthrough
FLAVOUR_release := -O2 -D_FORTIFY_SOURCE=2
FLAVOUR_debug := -O0 -DKV_FAULTS
FLAVOUR_asan := -O1 -DKV_FAULTS -fsanitize=address,undefined \
	-fno-sanitize-recover=all -fno-omit-frame-pointer
FLAVOUR_tsan := -O1 -DKV_FAULTS -fsanitize=thread
FLAVOUR_cov := -O0 -DKV_FAULTS --coverage
CFLAGS ?= -g
FLAVOUR := $(FLAVOUR_$(BUILD))
KV_CFLAGS := -std=gnu11 $(WARN) -fPIC -fvisibility=hidden -pthread \
	-fstack-protector-strong -fno-strict-aliasing -D_GNU_SOURCE -Ilib \
	-MMD -MP $(FLAVOUR)
LIBS := -lmicrohttpd -lcjson -lpcre2-8 -lxxhash -lpthread

LIB_SRC := $(filter-out lib/python/%,$(wildcard lib/*/*.c))
LIB_OBJ := $(LIB_SRC:%.c=$O/%.o)
PROGS := $(patsubst cmd/%.c,$O/%,$(wildcard cmd/*.c))
UNIT := $(patsubst tests/%.c,$O/tests/%,$(wildcard tests/unit/*/test_*.c))

.PHONY: all check check-unit clean
.SECONDARY:
all: $O/libkvpool.a $(PROGS)

$O/%.o: %.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(KV_CFLAGS) $(CFLAGS) -c -o $@ $<

$O/libkvpool.a: $(LIB_OBJ)
	@mkdir -p $(@D)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(PROGS): $O/%: $O/cmd/%.o $O/libkvpool.a
	$(Q)$(CC) $(KV_CFLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

$O/tests/%: $O/tests/%.o $O/libkvpool.a
	$(Q)$(CC) $(KV_CFLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $^ -lcmocka $(LIBS)

$O/tests/%.o: KV_CFLAGS += -Itests/lib

check: check-unit
check-unit: $(UNIT)
	$(Q)CMOCKA_MESSAGE_OUTPUT=TAP prove $(if $(UNIT),-e '' $(UNIT))

clean:
	rm -rf build

-include $(LIB_OBJ:.o=.d) $(wildcard $O/cmd/*.d $O/tests/*/*/*.d)
