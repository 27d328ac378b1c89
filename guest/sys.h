/*
 * What the guest programs know of the system: FreeBSD's numbers and layouts,
 * the stubs of start.S, and the few helpers of sys.c.  No C library.
 *
 * A stub returns the kernel's result, or -errno; `failed` tells them apart.
 */
#ifndef GUEST_SYS_H
#define GUEST_SYS_H

typedef unsigned char u8;
typedef unsigned int u32;
typedef long long i64;

#define NULL ((void *)0)
#define PAGE_SIZE 4096

#define O_RDONLY 0
#define O_WRONLY 1
#define O_RDWR 2
#define O_CREAT 0x200
#define O_TRUNC 0x400

#define SEEK_SET 0
#define SEEK_CUR 1
#define SEEK_END 2

#define PROT_READ 1
#define PROT_WRITE 2
#define PROT_EXEC 4
#define MAP_SHARED 1
#define MAP_PRIVATE 2
#define MAP_FIXED 0x10
#define MAP_ANON 0x1000

#define ENOENT 2
#define EBADF 9
#define ECHILD 10
#define ENOMEM 12
#define EFAULT 14
#define EINVAL 22
#define EMFILE 24
#define EFBIG 27
#define ENOSPC 28
#define EPIPE 32
#define EAGAIN 35
#define ENOSYS 78

#define SIGKILL 9
#define SIGPIPE 13
#define SIGSTOP 17
#define SIGUSR1 30
#define SIGUSR2 31
#define SIG_DFL ((void *)0)
#define SIG_IGN ((void *)1)
#define SA_SIGINFO 0x40

#define PT_TRACE_ME 0
#define PT_READ_I 1
#define PT_WRITE_I 4
#define PT_CONTINUE 7

/* A timeval is 16 bytes: time_t has 64 bits on FreeBSD/arm. */
struct timeval {
	i64 sec;
	int usec;
	int pad;
};

struct sigaction {
	void *handler;
	int flags;
	u32 mask[4];
};

/* What r0 points to at entry. */
struct ps_strings {
	char **argv;
	u32 argc;
	char **envp;
	u32 envc;
};

void exit(int code) __attribute__((noreturn));
int fork(void);
int read(int fd, void *buf, u32 bytes);
int write(int fd, const void *buf, u32 bytes);
int open(const char *path, int flags, int mode);
int close(int fd);
int wait4(int pid, int *status, int options, void *rusage);
int getpid(void);
int ptrace(int request, int pid, void *addr, u32 data);
int kill(int pid, int sig);
int execve(const char *path, char **argv, char **envp);
int msync(void *addr, u32 bytes, int flags);
int munmap(void *addr, u32 bytes);
int mprotect(void *addr, u32 bytes, int prot);
int dup2(int from, int to);
int gettimeofday(struct timeval *now, void *zone);
int sysarch(int op, void *args);
int sigaction(int sig, const struct sigaction *act, struct sigaction *old);
int pread(int fd, void *buf, u32 bytes, i64 offset);
int pwrite(int fd, const void *buf, u32 bytes, i64 offset);
void *mmap(void *addr, u32 bytes, int prot, int flags, int fd, i64 offset);
i64 lseek(int fd, i64 offset, int whence);
int pipe2(int fds[2], int flags);

#define WIFEXITED(s) (((s) & 0x7f) == 0)
#define WEXITSTATUS(s) (((s) >> 8) & 0xff)
#define WIFSTOPPED(s) (((s) & 0xff) == 0x7f)
#define WTERMSIG(s) ((s) & 0x7f)

/* Is this result of a stub an error, and not a count or an address? */
static inline int
failed(const void *result)
{
	return (u32)result > (u32)-4096;
}

u32 strlen(const char *s);
int streq(const char *a, const char *b);
int memcmp(const void *a, const void *b, u32 bytes);
void *memcpy(void *to, const void *from, u32 bytes);
void *memset(void *to, int byte, u32 bytes);

/* A decimal argument; anything but digits ends it. */
u32 number(const char *s);

/* Text is gathered and written to stdout at the end of a line. */
void say(const char *s);
void say_number(u32 n, u32 digits_min);

/* Counts a failed check and names it on stdout. */
void check(int good, const char *name);
extern int failures;

/* `fd >= 0` and the like fail: say what, with the errno, and exit. */
void die(int code, const char *what, int result) __attribute__((noreturn));

/* ARM_SYNC_ICACHE: make the program's own stores to code visible to fetches. */
int sync_icache(void *addr, u32 bytes);

#endif
