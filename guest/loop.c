/*
 * loop: never ends, and makes no system call.  For budgets.
 */
int
main(void)
{
	for (;;)
		asm volatile("");
}
