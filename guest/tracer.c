/*
 * tracer: a parent writes into its stopped child's text with ptrace, as a
 * debugger does to set a breakpoint.  The child has executed that function
 * before, so its old words may be in an instruction cache.
 *
 * Prints a line for each failed check; exit: how many failed; `tracer ok` if
 * none.
 */
#include "sys.h"

#define MOV_R0(value) (0xe3a00000 | (value))

int patched(void);
asm(".text\n"
    "	.balign 32\n"
    "patched:\n"
    "	mov r0, #1\n"
    "	bx lr\n");

static void
child(void)
{
	int first = patched();

	ptrace(PT_TRACE_ME, 0, NULL, 0);
	kill(getpid(), SIGSTOP);
	exit(first * 16 + patched());
}

int
main(void)
{
	int status = -1;
	int pid = fork();

	if (pid == 0)
		child();
	check(wait4(pid, &status, 0, NULL) == pid && WIFSTOPPED(status), "the child stops");
	check((u32)ptrace(PT_READ_I, pid, patched, 0) == MOV_R0(1), "PT_READ_I");
	check(ptrace(PT_WRITE_I, pid, patched, MOV_R0(2)) == 0, "PT_WRITE_I");
	check((u32)ptrace(PT_READ_I, pid, patched, 0) == MOV_R0(2), "PT_READ_I after the write");
	check(ptrace(PT_CONTINUE, pid, (void *)1, 0) == 0, "PT_CONTINUE");
	check(wait4(pid, &status, 0, NULL) == pid && WIFEXITED(status), "the child exits");
	check(WEXITSTATUS(status) >> 4 == 1, "the child ran its own word first");
	check((WEXITSTATUS(status) & 15) == 2, "the child then ran the new word");
	check(patched() == 1, "the parent still runs the old word");
	if (failures == 0)
		say("tracer ok\n");
	return failures;
}
