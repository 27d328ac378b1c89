/*
 * cat [-q] [-n BYTES] FILE...: reads files with read(2) in pieces of a page
 * and writes them to stdout.  -q discards them, like > /dev/null; -n reads
 * only the first BYTES of each.  What makes testsimple slow in the story is
 * that this program, or anything that reads a file, was run on it.
 *
 * Exit: 0; 1 if a file could not be opened or read, or the output not written.
 */
#include "sys.h"

static u8 buffer[PAGE_SIZE];

static void
put_all(const u8 *from, u32 bytes)
{
	while (bytes) {
		int n = write(1, from, bytes);
		if (n <= 0)
			die(1, "write", n);
		from += n;
		bytes -= n;
	}
}

static void
copy(const char *path, u32 left, int quiet)
{
	int n, fd = open(path, O_RDONLY, 0);
	if (fd < 0)
		die(1, path, fd);
	while (left && (n = read(fd, buffer, left < PAGE_SIZE ? left : PAGE_SIZE)) != 0) {
		if (n < 0)
			die(1, path, n);
		left -= n;
		if (!quiet)
			put_all(buffer, n);
	}
	close(fd);
}

int
main(int argc, char **argv)
{
	u32 bytes = 0xffffffff;
	int quiet = 0, i = 1;

	for (; i < argc && argv[i][0] == '-'; i++) {
		if (streq(argv[i], "-q"))
			quiet = 1;
		else if (streq(argv[i], "-n") && i + 1 < argc)
			bytes = number(argv[++i]);
		else
			die(1, "usage: cat [-q] [-n BYTES] FILE...", 0);
	}
	for (; i < argc; i++)
		copy(argv[i], bytes, quiet);
	return 0;
}
