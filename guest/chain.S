/*
 * A chain of COUNT functions of 256 bytes each, that fill a text of any size
 * with instructions that are really executed: function i turns a hash into
 * chain_step(hash, i) of chain.h.  For big and libdemo.so.
 *
 * With TABLE, a table of their addresses is made too; in a shared object each
 * entry needs a R_ARM_RELATIVE.
 */
	.arch	armv5te
	.arm
	.text
	.balign	256
	.globl	chain
	.hidden	chain
	.type	chain, %function
chain:
	.set	i, 0
	.rept	COUNT
	.balign	256
	mov	r1, #(i & 255)
	orr	r1, r1, #(i & ~255)
	.rept	30
	eor	r0, r0, r0, ror #7
	add	r0, r0, r1
	.endr
	bx	lr
	.set	i, i + 1
	.endr
	.balign	256

#ifdef TABLE
	.section .data.rel.ro,"aw",%progbits
	.balign	4
	.globl	chain_table
	.hidden	chain_table
chain_table:
	.set	i, 0
	.rept	COUNT
	.word	chain + 256 * i
	.set	i, i + 1
	.endr
#endif
