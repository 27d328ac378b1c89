/*
 * args [ARG...]: prints its arguments, then its environment, one a line.
 * What execer starts, to see what arrives.  Exit: argc.
 */
#include "sys.h"

int
main(int argc, char **argv, char **envp)
{
	for (int i = 0; i < argc; i++) {
		say(argv[i]);
		say("\n");
	}
	for (; *envp; envp++) {
		say(*envp);
		say("\n");
	}
	return argc;
}
