/*
 * testsimple [N]: assigns a volatile variable N times and prints how long that
 * took.  The program of the mail thread that this project starts from: with
 * its text cached it takes a fraction of a second, uncached many times that.
 *
 * The loop is in loop.S, because its length in words decides what an uncached
 * run costs; testsimple4, testsimple8 and testsimple1k are this program with
 * other loops.
 */
#include "sys.h"

void count(u32 n); /* loop.S */

int
main(int argc, char **argv)
{
	u32 n = argc > 1 ? number(argv[1]) : 200000;
	struct timeval before = { 0 }, after = { 0 };

	gettimeofday(&before, NULL);
	if (n)
		count(n);
	gettimeofday(&after, NULL);

	u32 us = (u32)(after.sec - before.sec) * 1000000 + after.usec - before.usec;
	say("Elapsed ");
	say_number(us / 1000000, 1);
	say(".");
	say_number(us % 1000000, 6);
	say("\n");
	return 0;
}
