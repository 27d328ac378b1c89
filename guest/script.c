/*
 * script COMMAND...: a shell as small as can be.  Each argument is one command:
 *
 *     cp FROM TO          copies a file with read and write, 4096 bytes at a time
 *     run PROGRAM [ARG..] [> FILE]
 *                         runs it in a child and waits
 *     read FILE           reads a file and forgets it
 *     sum FILE            a child reads the file into a pipe; prints the sum of its
 *                         bytes
 *     say WORD            prints it
 *
 * A shell's ways with files and processes, for where no shell has been fetched:
 * copying a program, running the copy, reading it through a pipe, overwriting it
 * and running it again.
 *
 * Exit: the last `run`'s exit code, or 128 and the signal that ended it; 200 wrong
 * use, 201 open, 202 read or write, 203 fork, wait4 or pipe.
 */
#include "sys.h"

#define WORDS_MAX 8

static char *words[WORDS_MAX + 1];
static u8 page[PAGE_SIZE];

/* Cuts a command into words; returns how many. */
static u32
cut(char *s)
{
	u32 n = 0;

	for (;;) {
		while (*s == ' ')
			*s++ = 0;
		if (*s == 0 || n == WORDS_MAX)
			break;
		words[n++] = s;
		while (*s && *s != ' ')
			s++;
	}
	words[n] = NULL;
	return n;
}

static int
opened(const char *path, int flags)
{
	int fd = open(path, flags, 0755);

	if (fd < 0)
		die(201, path, fd);
	return fd;
}

/* Copies what is left of one descriptor to another; a negative one is nowhere. */
static void
pour(int from, int to)
{
	int n;

	while ((n = read(from, page, PAGE_SIZE)) > 0)
		if (to >= 0 && write(to, page, n) != n)
			die(202, "write", 0);
	if (n < 0)
		die(202, "read", n);
}

static void
copy(const char *from, const char *to)
{
	int in = opened(from, O_RDONLY);
	int out = opened(to, O_WRONLY | O_CREAT | O_TRUNC);

	pour(in, out);
	close(in);
	close(out);
}

static int
waited(int pid)
{
	int status = -1;

	if (pid < 0 || wait4(pid, &status, 0, NULL) != pid)
		die(203, "fork or wait4", pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int
run(char **argv, u32 argc)
{
	static char name[] = "GUEST=script";
	char *envp[] = { name, NULL };
	int redirected = argc > 2 && streq(argv[argc - 2], ">");
	int pid = fork();

	if (pid != 0)
		return waited(pid);
	if (redirected) {
		int fd = opened(argv[argc - 1], O_WRONLY | O_CREAT | O_TRUNC);

		dup2(fd, 1);
		close(fd);
		argv[argc - 2] = NULL;
	}
	die(201, argv[0], execve(argv[0], argv, envp));
}

static void
sum(const char *path)
{
	u32 total = 0;
	int n, pid, ends[2];

	if (pipe2(ends, 0) != 0)
		die(203, "pipe", 0);
	pid = fork();
	if (pid == 0) {
		close(ends[0]);
		pour(opened(path, O_RDONLY), ends[1]);
		exit(0);
	}
	close(ends[1]);
	while ((n = read(ends[0], page, PAGE_SIZE)) > 0)
		for (int i = 0; i < n; i++)
			total += page[i];
	close(ends[0]);
	waited(pid);
	say("sum ");
	say_number(total, 1);
	say("\n");
}

int
main(int argc, char **argv)
{
	int code = 0;

	for (int i = 1; i < argc; i++) {
		u32 n = cut(argv[i]);

		if (n == 3 && streq(words[0], "cp"))
			copy(words[1], words[2]);
		else if (n > 1 && streq(words[0], "run"))
			code = run(words + 1, n - 1);
		else if (n == 2 && streq(words[0], "read"))
			pour(opened(words[1], O_RDONLY), -1);
		else if (n == 2 && streq(words[0], "sum"))
			sum(words[1]);
		else if (n == 2 && streq(words[0], "say")) {
			say(words[1]);
			say("\n");
		} else
			die(200, "usage: script 'cp A B' 'run P' 'read F' 'sum F' 'say W'", 0);
	}
	return code;
}
