/*
 * pipes [TURNS]: a token goes round between parent and child through two
 * pipes, TURNS times (default 100); then 64 KB go through one of them, more
 * than it holds, so that writer and reader must wait for each other; then the
 * ends: end of file, EPIPE.
 *
 * Prints a line for each failed check; exit: how many failed; `pipes ok` if
 * none.
 */
#include "sys.h"

#define BULK 65536

static u8 bulk[BULK];
static int there[2], back[2];

static void
child(u32 turns)
{
	u32 token;

	close(there[1]);
	close(back[0]);
	for (u32 i = 0; i < turns; i++) {
		if (read(there[0], &token, 4) != 4)
			exit(1);
		token++;
		if (write(back[1], &token, 4) != 4)
			exit(2);
	}
	for (u32 i = 0; i < BULK; i++)
		bulk[i] = i * 5 + (i >> 8);
	for (u32 done = 0; done < BULK;) {
		int n = write(back[1], bulk + done, BULK - done);
		if (n <= 0)
			exit(3);
		done += n;
	}
	exit(0);
}

static void
check_token(u32 turns)
{
	u32 token = 0, wrong = 0;

	for (u32 i = 0; i < turns; i++) {
		wrong += write(there[1], &token, 4) != 4;
		wrong += read(back[0], &token, 4) != 4;
		token++;
	}
	check(wrong == 0 && token == 2 * turns, "the token comes back each time");
}

static void
check_bulk(void)
{
	u32 done = 0, wrong = 0;
	int n;

	while (done < BULK && (n = read(back[0], bulk + done, BULK - done)) > 0)
		done += n;
	check(done == BULK, "64 KB come through the pipe");
	for (u32 i = 0; i < BULK; i++)
		wrong += bulk[i] != (u8)(i * 5 + (i >> 8));
	check(wrong == 0, "and are the bytes that were written");
	check(read(back[0], bulk, 1) == 0, "then the pipe is at its end");
}

int
main(int argc, char **argv)
{
	u32 turns = argc > 1 ? number(argv[1]) : 100;
	struct sigaction ignore = { .handler = SIG_IGN };
	int status = -1;

	check(pipe2(there, 0) == 0 && pipe2(back, 0) == 0, "pipe2");
	int pid = fork();
	if (pid == 0)
		child(turns);
	check(pid > 0, "fork");
	close(there[0]);
	close(back[1]);
	check_token(turns);
	check_bulk();
	check(wait4(pid, &status, 0, NULL) == pid && status == 0, "the child is content");
	check(sigaction(SIGPIPE, &ignore, NULL) == 0, "sigaction");
	check(write(there[1], bulk, 1) == -EPIPE, "write without a reader is EPIPE");
	if (failures == 0)
		say("pipes ok\n");
	return failures;
}
