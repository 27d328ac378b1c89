/*
 * forkbomb: every process forks for ever, also after fork has failed.  For
 * budgets.  Never exits.
 */
#include "sys.h"

int
main(void)
{
	for (;;)
		fork();
}
