#ifndef KV_BASE_UTF8_H
#define KV_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Reads the character at P, of which N > 0 bytes are there. Returns its length
 * (1..4) and sets *CP, or -EILSEQ for what is not UTF-8: a stray or missing
 * continuation byte, an overlong form, a surrogate, a value above U+10FFFF.
 */
int kv_utf8_next(const char *p, size_t n, uint32_t *cp);

/* Whether all N bytes at P are UTF-8. NUL is a character like any other. */
bool kv_utf8_is_valid(const char *p, size_t n);

/*
 * What Python's str.isprintable() takes: no separator but the space, no format
 * or control character, no surrogate, nothing private. What has no meaning yet
 * is taken to be printable, as it may be in the next Unicode.
 */
bool kv_utf8_is_printable(uint32_t cp);

#endif
