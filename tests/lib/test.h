#ifndef KV_TEST_H
#define KV_TEST_H

/* cmocka.h needs these before it; clang-format would sort them after. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
