/*
 * patchlib MODE FILE [private|shared]: overwrites, with write(2), code that it
 * has mapped and called, and calls it again at once.  FILE is patchlib.code.
 *
 *   map-first   map, call, write, call
 *   read-first  read(2) all, map, call, pread all, write, call
 *   readback    as map-first, then compare the mapping with what was written
 *
 * The program maps and writes another file than its own image, writes less
 * than a block, and does nothing between the write and the calls; nor between
 * the pread and the write, so that the kernel's copy of the block is as warm
 * in the cache as it can be.
 *
 * Exit: how many functions still returned the old version; in readback, how
 * many words differ (at most 199); 200 and above: see the calls of `die`.
 * FILE may hold version 1 or 2; the other one is written.
 */
#include "codepage.h"

static u32 image[2][PAGE_SIZE / 4]; /* versions 1 and 2 */
static u32 buffer[PAGE_SIZE / 4];
static u8 seen[CODE_FUNCTIONS];

static void
read_all(int fd)
{
	int n = read(fd, buffer, PAGE_SIZE);
	if (n != PAGE_SIZE)
		die(205, "read", n);
	if (memcmp(buffer, image[0], PAGE_SIZE) != 0 && memcmp(buffer, image[1], PAGE_SIZE) != 0)
		die(206, "the file read is neither version 1 nor version 2", 0);
	i64 at = lseek(fd, 0, SEEK_SET);
	if (at != 0)
		die(205, "lseek", (int)at);
}

static u32
words_wrong(const volatile u32 *page, const u32 *want)
{
	u32 n = 0;
	for (u32 i = 0; i < PAGE_SIZE / 4; i++)
		n += page[i] != want[i];
	return n;
}

int
main(int argc, char **argv)
{
	if (argc < 3)
		die(200, "usage: patchlib map-first|read-first|readback FILE [private|shared]", 0);
	int read_first = streq(argv[1], "read-first");
	int readback = streq(argv[1], "readback");
	if (!read_first && !readback && !streq(argv[1], "map-first"))
		die(200, "mode is map-first, read-first or readback", 0);
	int flags = argc > 3 && streq(argv[3], "shared") ? MAP_SHARED : MAP_PRIVATE;

	for (u32 v = 0; v < 2; v++) {
		code_write(image[v], v + 1);
		code_write_landing(image[v]);
	}
	int fd = open(argv[2], O_RDWR, 0);
	if (fd < 0)
		die(201, "open", fd);
	if (read_first)
		read_all(fd);
	u32 *page = mmap(NULL, PAGE_SIZE, PROT_READ | PROT_EXEC, flags, fd, 0);
	if (failed(page))
		die(202, "mmap", (int)page);

	code_call(page, seen);
	u32 old = seen[0];
	if ((old != 1 && old != 2) || code_count(seen, old) != CODE_FUNCTIONS)
		die(203, "the first calls saw neither version 1 nor version 2 throughout", 0);
	u32 new = 3 - old;

	if (read_first) {
		int n = pread(fd, buffer, PAGE_SIZE, 0);
		if (n != PAGE_SIZE)
			die(205, "pread", n);
	}
	int n = write(fd, image[new - 1], CODE_BYTES);
	code_call(page, seen);

	if (n != CODE_BYTES)
		die(204, "write", n);
	u32 stale = code_count(seen, old);
	say("old versions: ");
	say_number(stale, 1);
	say("\n");
	if (readback) {
		u32 wrong = words_wrong(page, image[new - 1]);
		say("wrong words: ");
		say_number(wrong, 1);
		say("\n");
		return wrong < 199 ? wrong : 199;
	}
	if (stale + code_count(seen, new) != CODE_FUNCTIONS)
		die(207, "some calls returned neither version", 0);
	return stale;
}
