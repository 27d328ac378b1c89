/*
 * selfcheck [ARG...]: uses each system call as a program may, and checks what
 * the kernel answers: entry conditions, files, mappings.  Writes /tmp/self.
 *
 * Prints a line for each failed check and `selfcheck ok` if there is none;
 * exit: how many failed.
 */
#include "sys.h"

#define LENGTH 10000 /* two pages and a part of a third */
#define MAPPED (3 * PAGE_SIZE)

static const char path[] = "/tmp/self";
static u8 data[LENGTH], back[MAPPED];

static void
check_entry(int argc, char **argv, char **envp, struct ps_strings *ps)
{
	u32 length = 0, envc = 0, page_size = 0;

	check(argc >= 1 && argv[0] != NULL, "argc is at least 1");
	check(argv[argc] == NULL, "argv ends with NULL");
	for (int i = 0; i < argc; i++)
		length += strlen(argv[i]);
	check(length > 0, "arguments can be read");
	check(envp == argv + argc + 1, "envp follows argv");
	while (envp[envc])
		envc++;
	for (u32 *aux = (u32 *)(envp + envc + 1); aux[0]; aux += 2)
		if (aux[0] == 6)
			page_size = aux[1];
	check(page_size == PAGE_SIZE, "auxv names the page size");
	check(ps != NULL, "r0 is ps_strings at entry");
	if (ps == NULL)
		return;
	check(ps->argv == argv && ps->argc == (u32)argc, "ps_strings names argv");
	check(ps->envp == envp && ps->envc == envc, "ps_strings names envp");
}

/* getpid with the carry set before the trap: r0, or -1 if carry stays set. */
static int
getpid_carry_set(void)
{
	register int r0 asm("r0") = 0;
	register int r7 asm("r7") = 20;
	asm volatile("cmp r7, r7\n\tswi 0\n\tmvncs r0, #0" : "+r"(r0) : "r"(r7) : "r1", "cc", "memory");
	return r0;
}

static void
check_process(void)
{
	struct timeval a = { 0 }, b = { 0 };
	int pid = getpid();

	check(pid > 0 && pid == getpid(), "getpid is positive and constant");
	check(getpid_carry_set() == pid, "success clears the carry");
	check(gettimeofday(&a, NULL) == 0 && gettimeofday(&b, NULL) == 0, "gettimeofday");
	check(a.usec >= 0 && a.usec < 1000000, "a timeval has 0 to 999999 microseconds");
	check(b.sec > a.sec || (b.sec == a.sec && b.usec >= a.usec), "time does not go back");
}

static void
check_files(void)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);

	check(fd > 2, "open creates a file");
	check(write(fd, data, LENGTH) == LENGTH, "write");
	check(read(fd, back, 1) == 0, "read at the end of the file gives 0");
	check(lseek(fd, 0, SEEK_SET) == 0, "lseek to the start");
	check(read(fd, back, MAPPED) == LENGTH, "read stops at the end of the file");
	check(memcmp(back, data, LENGTH) == 0, "read gives what was written");
	check(lseek(fd, -1000, SEEK_CUR) == LENGTH - 1000, "lseek from here");
	check(lseek(fd, -LENGTH, SEEK_END) == 0, "lseek from the end");
	check(lseek(fd, -1, SEEK_SET) == -EINVAL, "lseek before the start is EINVAL");
	check(pread(fd, back, 100, 5000) == 100, "pread");
	check(memcmp(back, data + 5000, 100) == 0, "pread reads at its offset");
	check(lseek(fd, 0, SEEK_CUR) == 0, "pread leaves the offset");
	check(pwrite(fd, data, 10, 4090) == 10, "pwrite");
	memcpy(data + 4090, data, 10);
	check(pread(fd, back, LENGTH, 0) == LENGTH, "pread of all");
	check(memcmp(back, data, LENGTH) == 0, "pwrite across a page changes its bytes only");

	check(dup2(fd, 20) == 20, "dup2");
	check(lseek(20, 77, SEEK_SET) == 77 && lseek(fd, 0, SEEK_CUR) == 77,
	    "a duplicate shares the offset");
	check(close(20) == 0 && close(20) == -EBADF, "close, and again: EBADF");
	check(close(fd) == 0 && read(fd, back, 1) == -EBADF, "read after close is EBADF");
	check(open("/tmp/there/is/none", O_RDONLY, 0) == -ENOENT, "no such file is ENOENT");

	fd = open(path, O_RDONLY, 0);
	check(write(fd, data, 1) == -EBADF, "write to a file open for reading is EBADF");
	check(read(fd, back, LENGTH) == LENGTH && memcmp(back, data, LENGTH) == 0,
	    "the file is the same when opened again");
	close(fd);
}

static void
check_anonymous(void)
{
	u8 *p = mmap(NULL, MAPPED, PROT_READ | PROT_WRITE, MAP_ANON | MAP_PRIVATE, -1, 0);
	u32 sum = 0;

	check(!failed(p) && (u32)p % PAGE_SIZE == 0, "mmap anonymous");
	if (failed(p))
		return;
	for (u32 i = 0; i < MAPPED; i++)
		sum += p[i];
	check(sum == 0, "anonymous memory is zero");
	memset(p, 0xa5, MAPPED);
	check(p[0] == 0xa5 && p[MAPPED - 1] == 0xa5, "anonymous memory keeps stores");

	int fd = open(path, O_RDONLY, 0);
	check(mprotect(p + PAGE_SIZE, PAGE_SIZE, PROT_READ) == 0, "mprotect to read-only");
	check(p[PAGE_SIZE] == 0xa5, "read-only memory keeps its bytes");
	check(read(fd, p + PAGE_SIZE, 1) == -EFAULT, "read into read-only memory is EFAULT");
	check(mprotect(p + PAGE_SIZE, PAGE_SIZE, PROT_READ | PROT_WRITE) == 0, "mprotect back");
	p[PAGE_SIZE] = 1;
	check(p[PAGE_SIZE] == 1, "memory made writable again takes stores");

	check(munmap(p + PAGE_SIZE, PAGE_SIZE) == 0, "munmap of the middle page");
	check(read(fd, p + PAGE_SIZE, 1) == -EFAULT, "read into unmapped memory is EFAULT");
	check(p[0] == 0xa5 && p[2 * PAGE_SIZE] == 0xa5, "its neighbours stay");
	u8 *q = mmap(p + PAGE_SIZE, PAGE_SIZE, PROT_READ | PROT_WRITE,
	    MAP_ANON | MAP_PRIVATE | MAP_FIXED, -1, 0);
	check(q == p + PAGE_SIZE, "MAP_FIXED maps where it is told");
	check(!failed(q) && q[0] == 0 && q[PAGE_SIZE - 1] == 0, "and the memory is zero again");
	check(munmap(p, MAPPED) == 0, "munmap");
	close(fd);
}

static void
check_file_mappings(void)
{
	int fd = open(path, O_RDWR, 0);
	u8 *shared = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	u8 *private = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	u8 *second = mmap(NULL, PAGE_SIZE, PROT_READ, MAP_PRIVATE, fd, PAGE_SIZE);

	check(!failed(shared) && !failed(private) && !failed(second), "mmap of a file");
	if (failed(shared) || failed(private) || failed(second))
		return;
	check(memcmp(shared, data, LENGTH) == 0, "a shared mapping shows the file");
	check(memcmp(private, data, LENGTH) == 0, "a private mapping shows the file");
	check(memcmp(second, data + PAGE_SIZE, PAGE_SIZE) == 0, "mmap at an offset");
	check(shared[LENGTH] == 0 && shared[MAPPED - 1] == 0, "behind the file's end are zeros");

	shared[0] = data[0] = 0x11;
	shared[5000] = data[5000] = 0x22;
	check(pread(fd, back, LENGTH, 0) == LENGTH && memcmp(back, data, LENGTH) == 0,
	    "read sees a store through a shared mapping");
	check(second[5000 - PAGE_SIZE] == 0x22, "another mapping sees it");
	data[9000] = 0x33;
	check(pwrite(fd, data + 9000, 1, 9000) == 1 && shared[9000] == 0x33,
	    "a shared mapping sees a write");

	private[1] = ~data[1];
	check(pread(fd, back, 2, 0) == 2 && back[1] == data[1] && shared[1] == data[1],
	    "a store through a private mapping stays private");
	shared[2] = data[2] = 0x44;
	check(private[2] != 0x44 && private[1] == (u8)~data[1], "and its page is a copy from then on");

	check(msync(shared, LENGTH, 0) == 0, "msync");
	check(munmap(shared, LENGTH) == 0 && munmap(private, LENGTH) == 0, "munmap of a file");
	check(close(fd) == 0 && second[0] == data[PAGE_SIZE], "a mapping outlives the descriptor");
	munmap(second, PAGE_SIZE);
	fd = open(path, O_RDONLY, 0);
	check(read(fd, back, LENGTH) == LENGTH && memcmp(back, data, LENGTH) == 0,
	    "stores through the shared mapping are in the file afterwards");
	close(fd);
}

int
main(int argc, char **argv, char **envp, struct ps_strings *ps)
{
	for (u32 i = 0; i < LENGTH; i++)
		data[i] = i * 7 + (i >> 8);
	check_entry(argc, argv, envp, ps);
	check_process();
	check_files();
	check_anonymous();
	check_file_mappings();
	if (failures == 0)
		say("selfcheck ok\n");
	return failures;
}
