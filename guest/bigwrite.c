/*
 * bigwrite FILE: appends pages to a file until write fails.  For budgets.
 *
 * Prints `N pages, errno E`.  Exit: 0 if write failed with EFBIG or ENOSPC, 1
 * for another error, 200 if FILE cannot be created.
 */
#include "sys.h"

static u8 page[PAGE_SIZE];

int
main(int argc, char **argv)
{
	u32 pages = 0;
	int n, fd = argc > 1 ? open(argv[1], O_WRONLY | O_CREAT | O_TRUNC, 0644) : -ENOENT;

	if (fd < 0)
		die(200, "usage: bigwrite FILE", fd);
	while ((n = write(fd, page, PAGE_SIZE)) > 0)
		pages++;
	say_number(pages, 1);
	say(" pages, errno ");
	say_number(-n, 1);
	say("\n");
	return n != -EFBIG && n != -ENOSPC;
}
