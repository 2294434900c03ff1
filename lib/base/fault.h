#ifndef KV_BASE_FAULT_H
#define KV_BASE_FAULT_H

#include <stdbool.h>

/*
 * Fault points. `if (KV_FAULT_POINT()) return -ENOMEM;` just before a step
 * that can fail. Each time one is passed it counts; with KV_FAULT=n in the
 * environment the n-th passed in the process is true, once, all others false.
 * So running with n = 1, 2, ... takes every error path. In builds without
 * -DKV_FAULTS (release) it is constant false.
 *
 * With KV_FAULT_REPORT=FILE a process appends one line to FILE:
 *   "reached N at FILE:LINE"  as soon as point N was made to fail
 *   "not reached N of M"      at exit, when it passed only M < N points
 * A process that passed no point at all writes nothing.
 */
#ifdef KV_FAULTS
#define KV_FAULT_POINT() kv_fault_pass(__FILE__, __LINE__)
#else
#define KV_FAULT_POINT() false
#endif

/* Any thread. */
bool kv_fault_pass(const char *file, int line);

#endif
