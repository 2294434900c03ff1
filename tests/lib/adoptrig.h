#ifndef KV_TEST_ADOPTRIG_H
#define KV_TEST_ADOPTRIG_H

/* The pool of a test that looks at what a life finds of those before it. */

#include "ledgerrig.h"

extern struct ledgerrig adopted;

/* Fixtures of cmocka: its first life begins, and all pages are there. */
int adoptrig_setup(void **state);
int adoptrig_teardown(void **state);
#define ADOPTRIG_TEST(fn) \
	cmocka_unit_test_setup_teardown(fn, adoptrig_setup, adoptrig_teardown)

enum kv_record_state adoptrig_state(uint32_t slot);
/* How many are not free. */
unsigned adoptrig_slots(void);
struct kv_index_stats adoptrig_stats(void);
/* Takes all there is, byte by byte: the rest must be somebody's. What may leave
 * is evicted. */
void adoptrig_adds_up(void);

#endif
