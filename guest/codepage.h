/*
 * A page of code whose every function says which version of the page it
 * belongs to: what patchlib overwrites with write(2), jit with stores, and
 * forker in one process and not in the other.
 *
 * 32 leaf functions, each alone on a 32-byte cache line, one every 128 bytes,
 * so that they fall into 32 different sets of any cache of 128 sets or more.
 * Between them lie no-operations, and the last line returns RUNAWAY: whoever
 * executes a blank line where a function should be comes back with a wrong
 * answer and does not run off the page.
 *
 * CODE_BYTES, all but that last line, is what a new version consists of; it is
 * less than a page on purpose, so that a file system must read the block
 * before it writes the bytes.
 */
#ifndef GUEST_CODEPAGE_H
#define GUEST_CODEPAGE_H

#include "sys.h"

#define CODE_FUNCTIONS 32
#define CODE_STRIDE 128
#define CODE_BYTES (PAGE_SIZE - 32)
#define RUNAWAY 255

#define MOV_R0(value) (0xe3a00000 | (value)) /* mov r0, #value */
#define BX_LR 0xe12fff1e

/* Stores version `version` (0 to 254) of all functions, not the last line. */
static inline void
code_write(u32 *page, u32 version)
{
	for (u32 i = 0; i < CODE_FUNCTIONS; i++) {
		u32 *f = page + i * (CODE_STRIDE / 4);
		f[0] = MOV_R0(version);
		f[1] = BX_LR;
	}
}

/* Stores the last line. */
static inline void
code_write_landing(u32 *page)
{
	page[CODE_BYTES / 4] = MOV_R0(RUNAWAY);
	page[CODE_BYTES / 4 + 1] = BX_LR;
}

/* Calls all functions, one after the other; their answers go to `seen`. */
static inline void
code_call(const u32 *page, u8 seen[CODE_FUNCTIONS])
{
	for (u32 i = 0; i < CODE_FUNCTIONS; i++)
		seen[i] = ((u32(*)(void))(page + i * (CODE_STRIDE / 4)))();
}

/* How many answers are `version`? */
static inline u32
code_count(const u8 seen[CODE_FUNCTIONS], u32 version)
{
	u32 n = 0;
	for (u32 i = 0; i < CODE_FUNCTIONS; i++)
		n += seen[i] == version;
	return n;
}

#endif
