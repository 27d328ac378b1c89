/*
 * Program entry and system call stubs, for every guest program.
 *
 * Entry (FreeBSD/arm): r0 = ps_strings; at sp: argc, argv..., NULL, envp...,
 * NULL, auxv.  main(argc, argv, envp, ps_strings) is called on a stack that is
 * aligned to 8 bytes; its result is the exit code.
 *
 * Stubs (FreeBSD EABI): number in r7, `swi 0`, arguments in r0-r3 and then on
 * the user stack exactly where the C caller put them, so a stub must not push.
 * Success: result in r0 (and r1), carry clear.  Error: errno in r0, carry set;
 * the C caller gets -errno.  The carry is cleared before the trap, which a
 * FreeBSD kernel does not need; it lets the same program run where the kernel
 * leaves the flags alone and returns -errno itself (Linux).  That a success
 * clears the carry is checked by selfcheck with a stub of its own.
 */
	.arch	armv5te
	.arm
	.section .text._start,"ax",%progbits
	.globl	_start
	.type	_start, %function
_start:
	mov	r3, r0			/* ps_strings */
	ldr	r0, [sp]		/* argc */
	add	r1, sp, #4		/* argv */
	add	r2, r1, r0, lsl #2
	add	r2, r2, #4		/* envp */
	bic	sp, sp, #7
	mov	fp, #0
	mov	lr, #0
	bl	main
	mov	r7, #1			/* exit */
	swi	0
	.word	0xe7f000f0		/* exit does not return: undefined */

	.macro	SYSCALL name, number
	.section .text.\name,"ax",%progbits
	.globl	\name
	.type	\name, %function
\name:	mov	ip, r7
	ldr	r7, =\number
	cmn	r7, #0			/* carry clear */
	swi	0
	mov	r7, ip
	bxcc	lr
	rsb	r0, r0, #0		/* -errno, as 64 bits for lseek */
	mvn	r1, #0
	bx	lr
	.ltorg
	.endm

	SYSCALL	exit, 1
	SYSCALL	fork, 2
	SYSCALL	read, 3
	SYSCALL	write, 4
	SYSCALL	open, 5
	SYSCALL	close, 6
	SYSCALL	wait4, 7
	SYSCALL	getpid, 20
	SYSCALL	ptrace, 26
	SYSCALL	sync, 36
	SYSCALL	kill, 37
	SYSCALL	execve, 59
	SYSCALL	msync, 65
	SYSCALL	munmap, 73
	SYSCALL	mprotect, 74
	SYSCALL	dup2, 90
	SYSCALL	gettimeofday, 116
	SYSCALL	sysarch, 165
	SYSCALL	sigaction, 416
	SYSCALL	pread, 475
	SYSCALL	pwrite, 476
	SYSCALL	mmap, 477
	SYSCALL	lseek, 478
	SYSCALL	pipe2, 542
