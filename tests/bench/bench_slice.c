/*
 * What a slice costs this process, from its posting to its completion, in
 * instructions: of the code of lib/ alone, the fake device left out, as
 * callgrind counts them (scripts/slice-cost runs it so). Prints how many slices
 * there were.
 */
#include <stdio.h>
#include <stdlib.h>

#include "railrig.h"
#include "test.h"

enum {
	RAILS = 4,
	MIB = 1 << 20,
	RANGES = 32, /* the same one so many times: bytes cost time here */
	SLICES = RANGES * (RAILRIG_BYTES / MIB),
};

/* What is counted; not to be inlined. */
__attribute__((noinline)) void bench_slice_run(struct railrig_move *m);

void
bench_slice_run(struct railrig_move *m)
{
	railrig_start(m);
	railrig_ms(20);
	if (m->end_done != 1 || m->end_status)
		abort();
}

int
main(void)
{
	const struct railrig_opts o = {
		.n = { RAILS, RAILS },
		.piece_bytes = MIB,
	};
	static struct railrig_move m;
	unsigned i;

	railrig_open(&o);
	railrig_connect();
	/* What queue pairs need before they move anything is made once. */
	railrig_move(1, KV_RDMAXFER_WRITE, 0, 0, MIB);
	railrig_prepare(&m, 1, KV_RDMAXFER_WRITE, 0, 0, RAILRIG_BYTES);
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
