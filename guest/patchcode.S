/*
 * patchlib.code: the file that patchlib maps, calls and overwrites.  Raw
 * binary, one page, version 1 of what codepage.h describes.
 */
	.arch	armv5te
	.arm
	.text
	.globl	_start
_start:
	.rept	31
	mov	r0, #1
	bx	lr
	.space	128 - 8
	.endr
	mov	r0, #1			/* function 31 and the last line share */
	bx	lr			/* its 128 bytes */
	.space	128 - 8 - 32
	mov	r0, #255		/* RUNAWAY */
	bx	lr
	.space	32 - 8
