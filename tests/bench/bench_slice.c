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
	ROUNDS = 2,
	MIB = 1 << 20,
	BYTES = 256 * MIB,
};

/* What is counted; not to be inlined. */
__attribute__((noinline)) void bench_slice_run(void);

void
bench_slice_run(void)
{
	static struct railrig_move m;
	unsigned i;

	for (i = 0; i < ROUNDS; i++) {
		railrig_prepare(&m, 1, KV_RDMAXFER_WRITE, 0, 0, BYTES);
		railrig_start(&m);
		railrig_ms(20);
		if (m.end_done != 1 || m.end_status)
			abort();
	}
}

int
main(void)
{
	const struct railrig_opts o = {
		.n = { RAILS, RAILS },
		.piece_bytes = MIB,
		.bytes = BYTES,
	};

	railrig_open(&o);
	railrig_connect();
	bench_slice_run();
	printf("slices %d\n", ROUNDS * BYTES / MIB);
	railrig_close();
	return 0;
}
