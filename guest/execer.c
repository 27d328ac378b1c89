/*
 * execer [-f] PROGRAM [ARG...]: execve of another program, with PROGRAM as its
 * argv[0], the arguments, and one environment string, GUEST=execer.  With -f a
 * child executes it; the parent waits and prints `status N`, the raw wait
 * status.
 *
 * Exit: the program's; 200 wrong use, 201 execve failed (with its errno), 202
 * the child was killed.
 */
#include "sys.h"

static void
run(char **argv)
{
	static char name[] = "GUEST=execer";
	char *envp[] = { name, NULL };

	die(201, argv[0], execve(argv[0], argv, envp));
}

int
main(int argc, char **argv)
{
	int in_child = argc > 1 && streq(argv[1], "-f");
	int status = -1;

	argv += 1 + in_child;
	if (argv[0] == NULL)
		die(200, "usage: execer [-f] PROGRAM [ARG...]", 0);
	if (!in_child)
		run(argv);
	int pid = fork();
	if (pid == 0)
		run(argv);
	if (pid < 0 || wait4(pid, &status, 0, NULL) != pid)
		die(202, "fork or wait4", pid);
	say("status ");
	say_number(status, 1);
	say("\n");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 202;
}
