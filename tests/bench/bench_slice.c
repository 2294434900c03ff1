/*
 * bench_slice [KIND]: what a slice costs this process, from its posting to its
 * completion, in instructions: of the code of lib/ alone, the fake device left
 * out, as callgrind counts them (scripts/slice-cost runs it so). Of a "write",
 * as gets are, if not told; of a "read", as puts are; or of an "alone", a raw
 * write. Prints how many slices there were.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "railrig.h"
#include "test.h"

enum {
	RAILS = 4,
	MIB = 1 << 20,
	RANGES = 32, /* the same one so many times: bytes cost time here */
	SLICES = RANGES * (RAILRIG_BYTES / MIB),
};

static const char *const kinds[] = {
	[KV_RDMAXFER_READ] = "read",
	[KV_RDMAXFER_WRITE] = "write",
	[KV_RDMAXFER_WRITE_ALONE] = "alone",
};

/* What is counted; not to be inlined. */
__attribute__((noinline)) void bench_slice_run(struct railrig_move *m);

void
bench_slice_run(struct railrig_move *m)
{
	railrig_start(m);
	railrig_ms(30);
	if (m->done != 1 || m->status || m->end_status)
		abort();
}

static enum kv_rdmaxfer_kind
kind_find(const char *name)
{
	unsigned i;

	for (i = 0; i < KV_ARRAY_LEN(kinds); i++)
		if (strcmp(kinds[i], name) == 0)
			return (enum kv_rdmaxfer_kind)i;
	fprintf(stderr, "bench_slice: no such kind: %s\n", name);
	exit(EXIT_FAILURE);
}

int
main(int argc, char **argv)
{
	enum kv_rdmaxfer_kind kind = kind_find(argc > 1 ? argv[1] : "write");
	const struct railrig_opts o = {
		.n = { RAILS, RAILS },
		.piece_bytes = MIB,
	};
	static struct railrig_move m;
	unsigned i;

	railrig_open(&o);
	railrig_connect();
	/* What queue pairs need before they move anything is made once. */
	railrig_move(1, kind, 0, 0, MIB);
	railrig_prepare(&m, 1, kind, 0, 0, RAILRIG_BYTES);
	for (i = 1; i < RANGES; i++) {
		m.near[i] = m.near[0];
		m.far[i] = m.far[0];
	}
	m.x.bytes = RANGES * RAILRIG_BYTES;
	bench_slice_run(&m);
	printf("slices %d\n", SLICES);
	railrig_close();
	return 0;
}
