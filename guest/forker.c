/*
 * forker [data|code|wait]: fork and copy-on-write; without an argument all of
 * it.
 *
 *   data  parent and child write the same pages; each sees its own bytes only
 *   code  a page of code that both share is rewritten by the child, then by
 *         the parent; each runs its own
 *   wait  process ids and what wait4 reports
 *
 * Prints a line for each failed check; exit: how many failed, the child's
 * included; `forker ok` if none.
 */
#include "codepage.h"

#define PAGES 8

static u32 data[PAGES][PAGE_SIZE / 4];
static u8 seen[CODE_FUNCTIONS];

/* In the child: exit with what failed here alone. */
static void
leave(int failed_before)
{
	exit(failures - failed_before);
}

/* In the parent: the child's failures are ours too. */
static void
join(int pid)
{
	int status = -1;

	check(pid > 0 && wait4(pid, &status, 0, NULL) == pid, "wait4 returns the child");
	check(WIFEXITED(status), "the child exits by itself");
	if (WIFEXITED(status))
		failures += WEXITSTATUS(status);
}

static void
write_all(u32 value)
{
	for (u32 p = 0; p < PAGES; p++)
		data[p][0] = data[p][PAGE_SIZE / 4 - 1] = value + p;
}

static int
holds(u32 value)
{
	int good = 1;
	for (u32 p = 0; p < PAGES; p++)
		good = good && data[p][0] == value + p && data[p][PAGE_SIZE / 4 - 1] == value + p;
	return good;
}

static void
check_data(void)
{
	int before = failures;
	volatile u32 on_stack = 1;

	write_all(100);
	int pid = fork();
	if (pid == 0) {
		check(holds(100), "the child sees the parent's bytes from before fork");
		write_all(200);
		on_stack = 2;
		check(holds(200) && on_stack == 2, "the child sees its own stores");
		leave(before);
	}
	write_all(300);
	on_stack = 3;
	check(holds(300), "the parent sees its own stores");
	join(pid);
	check(holds(300) && on_stack == 3, "the child's stores do not reach the parent");
	write_all(400);
	check(holds(400), "the parent writes on after the child's exit");
}

static int
runs(u32 *page, u32 version)
{
	code_call(page, seen);
	return code_count(seen, version) == CODE_FUNCTIONS;
}

static void
rewrite(u32 *page, u32 version)
{
	code_write(page, version);
	sync_icache(page, PAGE_SIZE);
}

static void
check_code(void)
{
	int before = failures;
	u32 *page = mmap(NULL, PAGE_SIZE, PROT_READ | PROT_WRITE | PROT_EXEC,
	    MAP_ANON | MAP_PRIVATE, -1, 0);

	check(!failed(page), "mmap");
	if (failed(page))
		return;
	code_write_landing(page);
	rewrite(page, 1);
	check(runs(page, 1), "code runs before fork");
	int pid = fork();
	if (pid == 0) {
		check(runs(page, 1), "the child runs the code from before fork");
		rewrite(page, 2);
		check(runs(page, 2), "the child runs its own code");
		leave(before);
	}
	check(runs(page, 1), "the parent runs its code beside the child");
	join(pid);
	check(runs(page, 1), "the child's code does not reach the parent");
	rewrite(page, 3);
	check(runs(page, 3), "the parent runs its new code");
}

static void
check_wait(void)
{
	int mine = getpid(), status = -1;
	int pid = fork();

	if (pid == 0)
		exit(getpid() != mine ? 7 : 8);
	check(pid > 0 && pid != mine, "fork returns another process id");
	check(wait4(-1, &status, 0, NULL) == pid, "wait4 for any child");
	check(status == 7 << 8, "the child exits with 7");
	check(wait4(-1, &status, 0, NULL) == -ECHILD, "wait4 without a child is ECHILD");
	pid = fork();
	if (pid == 0)
		for (;;)
			getpid();
	check(kill(pid, SIGKILL) == 0, "kill");
	check(wait4(pid, &status, 0, NULL) == pid && status == SIGKILL, "wait4 names the signal");
}

int
main(int argc, char **argv)
{
	const char *only = argc > 1 ? argv[1] : "";

	if (!*only || streq(only, "data"))
		check_data();
	if (!*only || streq(only, "code"))
		check_code();
	if (!*only || streq(only, "wait"))
		check_wait();
	if (failures == 0)
		say("forker ok\n");
	return failures;
}
