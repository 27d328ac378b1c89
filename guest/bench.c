/*
 * bench [COPIES [COUNT]]: memory copy and sort, the work of a program that
 * misses the caches.  Fills 64 Ki words from a linear congruence, copies all
 * 256 KB of them COPIES times (default 8) word by word, then sorts COUNT of
 * them (default 65,536, at most that) by quicksort, and checks both results.
 *
 * Prints `bench HASH`, exit 0; or `bench wrong`, exit 1.
 */
#include "sys.h"

#define WORDS 65536

static u32 source[WORDS], target[WORDS];

static void
fill(u32 *to, u32 count)
{
	u32 x = 12345;

	for (u32 i = 0; i < count; i++) {
		x = x * 1664525 + 1013904223;
		to[i] = x;
	}
}

/* Four words at a time, as a simple memcpy does. */
static void
copy(u32 *to, const u32 *from, u32 count)
{
	for (u32 i = 0; i < count; i += 4) {
		u32 a = from[i], b = from[i + 1], c = from[i + 2], d = from[i + 3];
		to[i] = a;
		to[i + 1] = b;
		to[i + 2] = c;
		to[i + 3] = d;
	}
}

/* The larger part last and without a call, so that the stack stays small. */
static void
quicksort(u32 *a, int low, int high)
{
	while (low < high) {
		u32 pivot = a[low + (high - low) / 2];
		int i = low, j = high;

		while (i <= j) {
			while (a[i] < pivot)
				i++;
			while (a[j] > pivot)
				j--;
			if (i <= j) {
				u32 t = a[i];
				a[i++] = a[j];
				a[j--] = t;
			}
		}
		if (j - low < high - i) {
			quicksort(a, low, j);
			low = i;
		} else {
			quicksort(a, i, high);
			high = j;
		}
	}
}

/* A hash of the words, or 0 if they are not in order. */
static u32
hash_sorted(const u32 *a, u32 count)
{
	u32 hash = 1;

	for (u32 i = 0; i < count; i++) {
		if (i > 0 && a[i - 1] > a[i])
			return 0;
		hash = hash * 31 + a[i];
	}
	return hash;
}

int
main(int argc, char **argv)
{
	u32 copies = argc > 1 ? number(argv[1]) : 8;
	u32 count = argc > 2 ? number(argv[2]) : WORDS;
	int good = 1;

	if (count > WORDS)
		count = WORDS;
	fill(source, WORDS);
	for (u32 i = 0; i < copies; i++)
		copy(target, source, WORDS);
	if (copies)
		good = memcmp(source, target, sizeof source) == 0;
	quicksort(source, 0, (int)count - 1);
	u32 hash = hash_sorted(source, count);
	if (!good || !hash) {
		say("bench wrong\n");
		return 1;
	}
	say("bench ");
	say_number(hash, 1);
	say("\n");
	return 0;
}
