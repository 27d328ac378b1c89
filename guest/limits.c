/*
 * limits: uses up each table that the kernel gives a program a share of, and
 * expects the right errno, and everything back afterwards: descriptors (EMFILE),
 * processes (EAGAIN), address space (ENOMEM), memory (a child that touches more
 * than there is dies of a signal, its parent lives), and numbers of no system
 * call (ENOSYS).
 *
 * Prints a line for each failed check; exit: how many failed; `limits ok` if
 * none.
 */
#include "sys.h"

#define PART (64u << 20)
#define MANY 4096

/* Descriptors are small numbers, closed in the order they were given. */
static void
descriptors(void)
{
	int fd, last = -1;

	while ((fd = open("/tmp/limits", O_RDWR | O_CREAT, 0644)) >= 0 && fd < MANY)
		last = fd;
	check(fd == -EMFILE, "open until EMFILE");
	check(last > 2, "some descriptors before that");
	for (; last > 2; last--)
		close(last);
	fd = open("/tmp/limits", O_RDONLY, 0);
	check(fd == 3, "all of them come back");
	close(fd);
}

/* Children that wait for the end of a pipe. */
static void
processes(void)
{
	int pid, ends[2];
	u32 made = 0;
	char byte;

	check(pipe2(ends, 0) == 0, "pipe2");
	while ((pid = fork()) > 0 && made < MANY)
		made++;
	if (pid == 0) {
		close(ends[1]);
		read(ends[0], &byte, 1);
		exit(0);
	}
	check(pid == -EAGAIN, "fork until EAGAIN");
	check(made > 0, "some processes before that");
	close(ends[0]);
	close(ends[1]);
	for (; made > 0; made--)
		check(wait4(-1, NULL, 0, NULL) > 0, "wait4 for each child");
	check(wait4(-1, NULL, 0, NULL) == -ECHILD, "then none is left");
}

static void
address_space(void)
{
	char *parts[64];
	u32 n = 0;

	for (; n < 64; n++) {
		parts[n] = mmap(NULL, PART, PROT_READ | PROT_WRITE, MAP_ANON | MAP_PRIVATE, -1, 0);
		if (failed(parts[n]))
			break;
	}
	check(n > 0 && n < 64 && (int)parts[n] == -ENOMEM, "mmap until ENOMEM");
	while (n-- > 0)
		check(munmap(parts[n], PART) == 0, "munmap of each");
}

/* Only on machines with less memory than this; MEMORY is in megabytes. */
static void
memory(u32 megabytes)
{
	u32 bytes = megabytes << 20;
	int status = 0;
	int pid = fork();

	if (pid == 0) {
		char *all = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_ANON | MAP_PRIVATE, -1, 0);

		if (failed(all))
			exit(1);
		for (u32 at = 0; at < bytes; at += PAGE_SIZE)
			all[at] = 1;
		exit(2);
	}
	check(pid > 0 && wait4(pid, &status, 0, NULL) == pid, "fork and wait4");
	check(!WIFEXITED(status), "a child that touches too much is killed");
	pid = fork();
	if (pid == 0)
		exit(7);
	check(wait4(pid, &status, 0, NULL) == pid && WEXITSTATUS(status) == 7, "its memory comes back");
}

static int
unknown(u32 number)
{
	register u32 r0 asm("r0") = 0;
	register u32 r7 asm("r7") = number;
	asm volatile("swi 0\n\trsbcs r0, r0, #0" : "+r"(r0) : "r"(r7) : "r1", "cc", "memory");
	return r0;
}

int
main(int argc, char **argv)
{
	static const u32 numbers[] = { 8, 600, 9999, 0x7fffffff, 0xffffffff };

	for (u32 n = 0; n < sizeof numbers / sizeof *numbers; n++)
		check(unknown(numbers[n]) == -ENOSYS, "an unknown number is ENOSYS");
	descriptors();
	processes();
	address_space();
	if (argc > 1)
		memory(number(argv[1]));
	if (failures == 0)
		say("limits ok\n");
	return failures;
}
