/* What function i of chain.S computes, in C. */
#ifndef GUEST_CHAIN_H
#define GUEST_CHAIN_H

static inline unsigned
chain_step(unsigned hash, unsigned i)
{
	for (int n = 0; n < 30; n++)
		hash = (hash ^ (hash >> 7 | hash << 25)) + i;
	return hash;
}

#endif
