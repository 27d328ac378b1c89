/*
 * libdemo.so and liblarge.so: what dl loads.  40 KB of text, or of 264 KB as a C
 * library's size would have it (chain.S), and one of each dynamic
 * relocation that a library of its time has: R_ARM_JUMP_SLOT for demo_next,
 * R_ARM_GLOB_DAT for demo_base, R_ARM_ABS32 for demo_pointer, R_ARM_RELATIVE
 * for the table of the chain.  Data, and two pages of bss behind it.
 */
#include "chain.h"

#define LINKS COUNT

typedef unsigned (*link_function)(unsigned);

extern const link_function chain_table[LINKS] __attribute__((visibility("hidden")));

/* bss; its last word counts the calls of demo_next. */
unsigned demo_bss[2048] __attribute__((visibility("hidden")));

/* How many functions the chain has. */
const unsigned demo_links = LINKS;

unsigned demo_base = 1000;
unsigned *demo_pointer = &demo_base;

unsigned demo_next(unsigned x);
unsigned demo_sum(unsigned x);

unsigned
demo_next(unsigned x)
{
	return x + ++demo_bss[2047];
}

/* Runs all of the text; uses every relocated word. */
unsigned
demo_sum(unsigned x)
{
	for (unsigned i = 0; i < LINKS; i++)
		x = demo_next(chain_table[i](x));
	return x + demo_base + *demo_pointer;
}
