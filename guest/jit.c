/*
 * jit sync|nosync|cold: writes functions into anonymous memory that is
 * readable, writable and executable, calls them, overwrites and calls them
 * again, four versions in all (codepage.h).
 *
 *   sync    ARM_SYNC_ICACHE after each version: no wrong result is allowed
 *   nosync  only before the first calls: old versions may be seen, but no more
 *   cold    never, but for the landing line: the first calls may already miss
 *           their function
 *
 * Exit: how many calls gave a wrong result (of 128); 200: error.
 */
#include "codepage.h"

#define VERSIONS 4

static u8 seen[CODE_FUNCTIONS];

int
main(int argc, char **argv)
{
	int sync = argc > 1 && streq(argv[1], "sync");
	int cold = argc > 1 && streq(argv[1], "cold");
	u32 wrong = 0;

	if (argc < 2 || (!sync && !cold && !streq(argv[1], "nosync")))
		die(200, "usage: jit sync|nosync|cold", 0);
	u32 *page = mmap(NULL, PAGE_SIZE, PROT_READ | PROT_WRITE | PROT_EXEC,
	    MAP_ANON | MAP_PRIVATE, -1, 0);
	if (failed(page))
		die(200, "mmap", (int)page);
	code_write_landing(page);
	sync_icache((u8 *)page + CODE_BYTES, PAGE_SIZE - CODE_BYTES);

	for (u32 version = 1; version <= VERSIONS; version++) {
		code_write(page, version);
		if (sync || (version == 1 && !cold))
			sync_icache(page, CODE_BYTES);
		code_call(page, seen);
		wrong += CODE_FUNCTIONS - code_count(seen, version);
	}
	say("wrong results: ");
	say_number(wrong, 1);
	say("\n");
	return wrong;
}
