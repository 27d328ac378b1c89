/*
 * The loop of testsimple: count(n), n > 0, assigns the volatile `counter` n
 * times.  Each turn is one load and one store of it, whatever the length:
 *
 *   WORDS 5  as gcc compiles it: the variable counts up, a register down
 *   WORDS 4  the variable itself is counted down and decides
 *   WORDS 8  the loop of 5 with three no-operations, one whole cache line
 *
 * The loop starts on a cache line.  With CROSS it instead starts two words
 * before a 1 KB boundary (and not a page boundary), which the prefetcher of
 * some cores does not cross.
 */
	.arch	armv5te
	.arm
	.bss
	.balign	4
counter:
	.space	4

	.section .text.count,"ax",%progbits
#ifdef CROSS
	.balign	2048
#else
	.balign	32
#endif
	.globl	count
	.type	count, %function
count:
	ldr	r2, =counter
#if WORDS == 4
	str	r0, [r2]
#endif
	b	loop
	.ltorg
#ifdef CROSS
	.org	1024 - 8
#else
	.balign	32
#endif
loop:
#if WORDS == 4
	ldr	r3, [r2]
	subs	r3, r3, #1
	str	r3, [r2]
	bne	loop
#else
	ldr	r3, [r2]
	subs	r0, r0, #1
	add	r3, r3, #1
	str	r3, [r2]
#if WORDS == 8
	mov	r0, r0
	mov	r0, r0
	mov	r0, r0
#endif
	bne	loop
#endif
loop_end:
	.if	(loop_end - loop) != 4 * WORDS
	.error	"the loop does not have the length it is named for"
	.endif
	bx	lr
