/*
 * Removes all, or a key, when something else has been done since it knew the
 * pool:
 *
 *	removelate --do=COMMAND [--key=KEY] --master=... --socket=...
 *
 * Prints how many keys the library says were removed (or its error) and how
 * many nodes are away. Exit status: 0, or 1 after an error.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "driver.h"
#include "kvpool.h"

int
main(int argc, char **argv)
{
	const char *command = "true", *key = NULL;
	struct driver_opt own[] = { { "do", DRIVER_TEXT, &command },
				    { "key", DRIVER_TEXT, &key },
				    { NULL, DRIVER_TEXT, NULL } };
	struct driver d = { 0 };
	struct kv_client *c;
	uint32_t away = 0;
	long removed;

	(void)argc;
	driver_parse(&d, own, argv);
	c = driver_open(&d);
	if (system(command) != 0)
		return EX_OSERR;
	if (key) {
		struct kv_key k = { key, strlen(key) };

		removed = kv_client_remove(c, &k, 1, 0, NULL, &away);
	} else {
		removed = kv_client_remove_matching(c, NULL, 1, NULL, NULL,
						    &away);
	}
	kv_client_close(c);
	printf("%ld %u\n", removed, away);
	return removed < 0;
}
