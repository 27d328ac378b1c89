/*
 * big [K [PASSES]]: 256 KB of text with 1024 functions spread over all of it.
 * Every K-th (default every one) is called, PASSES times (default 1), and the
 * hash they compute compared with what C says, and for K = 1 and one pass with
 * the number below.  For: a text far larger than the caches; how many pages
 * of it a short read(2) of the file spoils; any wrong word is noticed.
 *
 * Prints `big ok`, exit 0; or `big wrong`, exit 1.
 */
#include "sys.h"
#include "chain.h"

#define SUM_OF_ALL 0xcfe6e7cbu

extern u8 chain[]; /* chain.S */

int
main(int argc, char **argv)
{
	u32 every = argc > 1 ? number(argv[1]) : 1;
	u32 passes = argc > 2 ? number(argv[2]) : 1;
	u32 sum = 1, want = 1;

	if (every == 0)
		every = 1;
	for (u32 pass = 0; pass < passes; pass++) {
		for (u32 i = 0; i < 1024; i += every) {
			sum = ((u32(*)(u32))(chain + 256 * i))(sum);
			want = chain_step(want, i);
		}
	}
	int good = sum == want;
	if (every == 1 && passes == 1)
		good = good && sum == SUM_OF_ALL;
	say(good ? "big ok\n" : "big wrong\n");
	return !good;
}
