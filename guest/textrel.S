/*
 * libtext.so: a library whose *instructions* are relocated.  32 functions, one
 * every 128 bytes; in each, one word is not in the file but is put there by
 * the loader: R_ARM_ABS32 against `dl_insn`, which the loader defines to be
 * the encoding of `mov r0, #2`.  Before that the word is 0, an instruction
 * that does nothing, so a function that executes the old word returns 1.
 */
	.arch	armv5te
	.arm
	.text
	.balign	128
	.globl	text_functions
	.type	text_functions, %function
text_functions:
	.rept	32
	mov	r0, #1
	.word	dl_insn
	bx	lr
	.space	128 - 12
	.endr
