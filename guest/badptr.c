/*
 * badptr: gives each system call that takes a pointer one that it must not
 * follow, and expects EFAULT: address 0, an unmapped page, the kernel's space,
 * the end of the address space, a range that begins well and runs into an
 * unmapped page, and read-only memory where the kernel would write.
 *
 * Prints a line for each failed check; exit: how many failed; `badptr ok` if
 * none.
 */
#include "sys.h"

static int fd, pipe_fds[2];
static char *hole; /* an unmapped page behind a mapped one */

static void
expect(int result, const char *call, const char *where)
{
	if (result == -EFAULT)
		return;
	failures++;
	say("failed: ");
	say(call);
	say(" with ");
	say(where);
	say(result < 0 ? " gives errno " : " gives ");
	say_number(result < 0 ? -result : result, 1);
	say("\n");
}

/* Calls that read memory of the program. */
static void
reads_from(void *bad, const char *where)
{
	char *argv[] = { bad, NULL };
	char name[] = "/tmp/bad";

	expect(write(fd, bad, 16), "write", where);
	expect(pwrite(fd, bad, 16, 0), "pwrite", where);
	expect(write(pipe_fds[1], bad, 16), "write to a pipe", where);
	expect(open(bad, O_RDONLY, 0), "open", where);
	expect(execve(bad, argv + 1, argv + 1), "execve of a path", where);
	if (bad != NULL) {
		expect(execve(name, argv, argv + 1), "execve of an argument", where);
		expect(execve(name, bad, argv + 1), "execve of argv", where);
		expect(sigaction(SIGUSR1, bad, NULL), "sigaction", where);
	}
	expect(sysarch(0, bad), "sysarch", where);
}

/* Calls that write to it. */
static void
writes_to(void *bad, const char *where)
{
	expect(pread(fd, bad, 16, 0), "pread", where);
	lseek(fd, 0, SEEK_SET);
	expect(read(fd, bad, 16), "read", where);
	expect(pipe2(bad, 0), "pipe2", where);
	if (bad != NULL) {
		expect(gettimeofday(bad, NULL), "gettimeofday", where);
		expect(sigaction(SIGUSR1, NULL, bad), "sigaction of the old", where);
		int pid = fork();
		if (pid == 0)
			exit(0);
		expect(wait4(pid, bad, 0, NULL), "wait4", where);
		wait4(pid, NULL, 0, NULL);
	}
}

static void
both(void *bad, const char *where)
{
	reads_from(bad, where);
	writes_to(bad, where);
}

/* mmap's descriptor and offset lie on the stack; here there is none. */
static int
mmap_without_stack(void)
{
	register int r0 asm("r0") = 0;
	register int r1 asm("r1") = PAGE_SIZE;
	register int r2 asm("r2") = PROT_READ;
	register int r3 asm("r3") = MAP_PRIVATE;
	register int r7 asm("r7") = 477;
	asm volatile("mov r4, sp\n\tmov sp, #16\n\tswi 0\n\tmov sp, r4\n\trsbcs r0, r0, #0"
	             : "+r"(r0), "+r"(r1)
	             : "r"(r2), "r"(r3), "r"(r7)
	             : "r4", "cc", "memory");
	return r0;
}

int
main(void)
{
	static char text[] = "sixteen bytes and more";
	char *two = mmap(NULL, 2 * PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_ANON | MAP_PRIVATE, -1, 0);

	fd = open("/tmp/bad", O_RDWR | O_CREAT | O_TRUNC, 0644);
	check(fd > 2 && write(fd, text, sizeof text) == sizeof text, "a file to read and write");
	check(pipe2(pipe_fds, 0) == 0, "pipe2");
	check(!failed(two) && munmap(two + PAGE_SIZE, PAGE_SIZE) == 0, "a hole");
	hole = two + PAGE_SIZE;
	memset(hole - 8, 'x', 8);

	both(NULL, "address 0");
	both(hole, "an unmapped page");
	both((void *)0xc0000000, "the kernel's space");
	both((void *)0xffff0000, "the vector page");
	both((void *)0xfffffff8, "the end of the address space");
	reads_from(hole - 2, "a range that runs into an unmapped page");
	writes_to(hole - 2, "a range that runs into an unmapped page");
	writes_to((void *)((u32)main & ~7u), "read-only text");
	expect(mmap_without_stack(), "mmap", "its arguments on no stack");

	if (failures == 0)
		say("badptr ok\n");
	return failures;
}
