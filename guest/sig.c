/*
 * sig: signals.  Handlers through sigaction, kill and sigreturn; the way back
 * from a handler is sigcode, which exec has copied to the stack: instructions
 * that the kernel wrote as data.
 *
 * A handler is entered with r0 = signal, r1 = siginfo, r2 = ucontext; when it
 * returns, every register of the interrupted program is as it was.
 *
 * Prints a line for each failed check; exit: how many failed, the child's
 * included; `sig ok` if none.
 */
#include "sys.h"

static volatile int calls, nested, deepest, last_signal, last_info;

static void
note(int sig, const int *info, void *context)
{
	calls++;
	last_signal = sig;
	last_info = info ? info[0] : -1;
	(void)context;
}

/* Sends itself the signal it handles: held back until it has returned. */
static void
again(int sig)
{
	calls++;
	nested++;
	if (nested > deepest)
		deepest = nested;
	if (calls < 3)
		kill(getpid(), sig);
	nested--;
}

/*
 * trash is a handler that spoils every register it can; kill_checked sends a
 * signal with a known value in every register and returns how many of them
 * came back changed, or 100 plus the errno.
 */
void trash(int sig);
int kill_checked(int pid, int sig);
asm(".text\n"
    "trash:\n"
    "	.irp r, 0,1,2,3,4,5,6,7,8,9,10,11,12\n"
    "	mvn r\\r, #0\n"
    "	.endr\n"
    "	cmp r0, r0\n"
    "	bx lr\n"
    "kill_checked:\n"
    "	push {r4-r11, lr}\n"
    "	.irp r, 2,3,4,5,6,8,9,10,11,12,14\n"
    "	mov r\\r, #\\r\n"
    "	.endr\n"
    "	mov r7, #37\n"
    "	swi 0\n"
    "	addcs r0, r0, #100\n"
    "	.irp r, 2,3,4,5,6,8,9,10,11,12,14\n"
    "	cmp r\\r, #\\r\n"
    "	addne r0, r0, #1\n"
    "	.endr\n"
    "	cmp r7, #37\n"
    "	addne r0, r0, #1\n"
    "	pop {r4-r11, pc}\n");

static void
handle(int sig, void *handler, int flags)
{
	struct sigaction act = { handler, flags, { 0 } }, old;

	check(sigaction(sig, &act, NULL) == 0, "sigaction");
	check(sigaction(sig, NULL, &old) == 0 && old.handler == handler, "sigaction tells the old");
}

static void
check_handler(void)
{
	handle(SIGUSR1, (void *)note, SA_SIGINFO);
	for (int i = 1; i <= 3; i++) {
		check(kill(getpid(), SIGUSR1) == 0, "kill");
		check(calls == i && last_signal == SIGUSR1, "the handler runs before kill returns");
		check(last_info == SIGUSR1, "siginfo names the signal");
	}
	handle(SIGUSR2, (void *)trash, 0);
	check(kill_checked(getpid(), SIGUSR2) == 0, "sigreturn restores every register");
	calls = 0;
	handle(SIGUSR2, (void *)again, 0);
	check(kill(getpid(), SIGUSR2) == 0 && calls == 3, "a signal in its handler comes after it");
	check(deepest == 1, "and not inside it");
	handle(SIGUSR2, SIG_IGN, 0);
	check(kill(getpid(), SIGUSR2) == 0 && calls == 3, "an ignored signal does nothing");
}

static void
child(int before)
{
	calls = 0;
	check(kill(getpid(), SIGUSR1) == 0 && calls == 1, "a child inherits the handler");
	int so_far = failures - before;
	handle(SIGUSR1, SIG_DFL, 0);
	if (so_far == 0)
		kill(getpid(), SIGUSR1);
	exit(so_far + 1);
}

int
main(void)
{
	int status = -1;

	check_handler();
	int before = failures;
	int pid = fork();
	if (pid == 0)
		child(before);
	check(wait4(pid, &status, 0, NULL) == pid, "wait4");
	check(status == SIGUSR1, "an unhandled SIGUSR1 ends the child, and wait4 says so");
	if (failures == 0)
		say("sig ok\n");
	return failures;
}
