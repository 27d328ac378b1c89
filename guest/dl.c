/*
 * dl read|mmap FILE [sync|nosync]: loads a shared object as rtld does, and
 * calls it.
 *
 *   read    looks at the ELF header with read(2): the file's first block goes
 *           through the buffer cache (rtld before 2012)
 *   mmap    looks at it through a mapping of its first page (rtld since)
 *
 * Then: map the text read-execute and the data read-write, both private; zero
 * the rest of the data page and map bss; relocate; call.  The end of the text
 * and the start of the data share a page of the file.
 *
 * libdemo.so and liblarge.so: the call computes a known number.  libtext.so has relocations in
 * its text: that is made read-write, relocated, made read-execute again, and
 * with `sync` (default) followed by ARM_SYNC_ICACHE, with `nosync` not.
 *
 * Exit: 0 and `dl ok`; for libtext.so the number of its functions that ran
 * their old word (of 32), for the others 1 if the number is wrong; 200 and
 * above: see the calls of `die`.
 */
#include "sys.h"
#include "chain.h"

struct ehdr {
	u8 ident[16];
	unsigned short type, machine;
	u32 version, entry, phoff, shoff, flags;
	unsigned short ehsize, phentsize, phnum, shentsize, shnum, shstrndx;
};

struct phdr {
	u32 type, offset, vaddr, paddr, filesz, memsz, flags, align;
};

struct dyn {
	u32 tag, value;
};

struct rel {
	u32 offset, info;
};

struct sym {
	u32 name, value, size;
	u8 info, other;
	unsigned short shndx;
};

enum { PT_LOAD = 1, PT_DYNAMIC = 2, EM_ARM = 40, ET_DYN = 3 };
enum { DT_PLTRELSZ = 2, DT_HASH = 4, DT_STRTAB = 5, DT_SYMTAB = 6, DT_REL = 17, DT_RELSZ = 18,
	DT_TEXTREL = 22, DT_JMPREL = 23, DT_FLAGS = 30, DT_COUNT = 31, DF_TEXTREL = 4 };
enum { R_ARM_ABS32 = 2, R_ARM_GLOB_DAT = 21, R_ARM_JUMP_SLOT = 22, R_ARM_RELATIVE = 23 };

#define DL_INSN 0xe3a00002 /* mov r0, #2: what `dl_insn` is */
#define TEXT_FUNCTIONS 32
#define TEXT_STRIDE 128

/* A loaded object. */
struct object {
	u8 *base;
	u32 text_bytes;
	const struct sym *symbols;
	const char *names;
	u32 symbols_count;
	u32 dynamic[DT_COUNT];
};

static u32 first_page[PAGE_SIZE / 4];

static u32
page_down(u32 address)
{
	return address & ~(PAGE_SIZE - 1);
}

static u32
page_up(u32 address)
{
	return page_down(address + PAGE_SIZE - 1);
}

/* The header and the program headers, which the first page holds. */
static const struct ehdr *
look(int fd, int by_read)
{
	const struct ehdr *header = (const struct ehdr *)first_page;

	if (by_read) {
		int n = read(fd, first_page, PAGE_SIZE);
		if (n < (int)sizeof *header)
			die(202, "read", n);
	} else {
		header = mmap(NULL, PAGE_SIZE, PROT_READ, MAP_PRIVATE, fd, 0);
		if (failed(header))
			die(203, "mmap of the header", (int)header);
	}
	if (memcmp(header->ident, "\177ELF\1\1\1", 7) != 0 || header->machine != EM_ARM ||
	    header->type != ET_DYN || header->phentsize != sizeof(struct phdr) ||
	    header->phoff + header->phnum * sizeof(struct phdr) > PAGE_SIZE)
		die(204, "not an ARM shared object", 0);
	return header;
}

static void
map_data(int fd, u8 *base, const struct phdr *data)
{
	u32 start = page_down(data->vaddr), end = data->vaddr + data->filesz;
	u32 bss = page_up(end), bss_end = page_up(data->vaddr + data->memsz);
	void *p = mmap(base + start, bss - start, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED,
	    fd, page_down(data->offset));

	if (p != base + start)
		die(206, "mmap of the data", (int)p);
	memset(base + end, 0, bss - end);
	if (bss_end == bss)
		return;
	p = mmap(base + bss, bss_end - bss, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANON | MAP_FIXED, -1, 0);
	if (p != base + bss)
		die(206, "mmap of bss", (int)p);
}

/* Maps the segments: text first, over the whole range, then data over it. */
static void
map(int fd, const struct ehdr *header, struct object *object)
{
	const struct phdr *phdr = (const struct phdr *)((const u8 *)header + header->phoff);
	const struct phdr *load[2] = { NULL, NULL }, *dynamic = NULL;
	u32 loads = 0;

	for (u32 i = 0; i < header->phnum; i++) {
		if (phdr[i].type == PT_LOAD && loads++ < 2)
			load[loads - 1] = &phdr[i];
		if (phdr[i].type == PT_DYNAMIC)
			dynamic = &phdr[i];
	}
	if (loads < 1 || loads > 2 || load[0]->vaddr != 0 || load[0]->offset != 0 || !dynamic)
		die(204, "not a text and a data segment", 0);
	const struct phdr *last = load[loads - 1];
	u8 *base = mmap(NULL, page_up(last->vaddr + last->memsz), PROT_READ | PROT_EXEC,
	    MAP_PRIVATE, fd, 0);
	if (failed(base))
		die(205, "mmap of the text", (int)base);
	if (loads == 2)
		map_data(fd, base, load[1]);
	object->base = base;
	object->text_bytes = page_up(load[0]->memsz);
	for (const struct dyn *d = (const struct dyn *)(base + dynamic->vaddr); d->tag; d++)
		if (d->tag < DT_COUNT)
			object->dynamic[d->tag] = d->tag == DT_TEXTREL ? 1 : d->value;
}

static const struct sym *
lookup(const struct object *object, const char *name)
{
	for (u32 i = 1; i < object->symbols_count; i++)
		if (object->symbols[i].shndx && streq(object->names + object->symbols[i].name, name))
			return &object->symbols[i];
	return NULL;
}

static u32
value_of(const struct object *object, const struct sym *symbol)
{
	const char *name = object->names + symbol->name;

	if (symbol->shndx)
		return (u32)object->base + symbol->value;
	if (!streq(name, "dl_insn"))
		die(207, name, 0);
	return DL_INSN;
}

static void
relocate_table(const struct object *object, u32 table, u32 bytes)
{
	const struct rel *rel = (const struct rel *)(object->base + table);

	for (u32 i = 0; i < bytes / sizeof *rel; i++) {
		u32 *place = (u32 *)(object->base + rel[i].offset);
		const struct sym *symbol = &object->symbols[rel[i].info >> 8];

		switch (rel[i].info & 255) {
		case R_ARM_RELATIVE:
			*place += (u32)object->base;
			break;
		case R_ARM_ABS32:
			*place += value_of(object, symbol);
			break;
		case R_ARM_GLOB_DAT:
		case R_ARM_JUMP_SLOT:
			*place = value_of(object, symbol);
			break;
		default:
			die(207, "relocation of an unknown type", 0);
		}
	}
}

static void
protect_text(const struct object *object, int prot)
{
	int error = mprotect(object->base, object->text_bytes, prot);
	if (error)
		die(208, "mprotect", error);
}

static void
relocate(struct object *object, int sync)
{
	const u32 *dynamic = object->dynamic;
	int in_text = dynamic[DT_TEXTREL] || dynamic[DT_FLAGS] & DF_TEXTREL;

	object->symbols = (const struct sym *)(object->base + dynamic[DT_SYMTAB]);
	object->names = (const char *)(object->base + dynamic[DT_STRTAB]);
	object->symbols_count = ((const u32 *)(object->base + dynamic[DT_HASH]))[1];
	if (in_text)
		protect_text(object, PROT_READ | PROT_WRITE);
	relocate_table(object, dynamic[DT_REL], dynamic[DT_RELSZ]);
	relocate_table(object, dynamic[DT_JMPREL], dynamic[DT_PLTRELSZ]);
	if (in_text)
		protect_text(object, PROT_READ | PROT_EXEC);
	if (in_text && sync)
		sync_icache(object->base, object->text_bytes);
}

/* libtext.so: how many functions ran their old word? */
static u32
call_text(const u8 *functions)
{
	u32 old = 0;

	for (u32 i = 0; i < TEXT_FUNCTIONS; i++)
		old += ((u32(*)(void))(functions + i * TEXT_STRIDE))() != 2;
	say("old words: ");
	say_number(old, 1);
	say("\n");
	return old;
}

/* A library of demo.c: is the sum wrong? */
static u32
call_demo(u32 (*sum)(u32), u32 links)
{
	u32 want = 1;

	for (u32 i = 0; i < links; i++)
		want = chain_step(want, i) + i + 1;
	want += 2000;
	if (sum(1) == want)
		return 0;
	say("wrong sum\n");
	return 1;
}

int
main(int argc, char **argv)
{
	static struct object object;

	if (argc < 3 || (!streq(argv[1], "read") && !streq(argv[1], "mmap")))
		die(200, "usage: dl read|mmap FILE [sync|nosync]", 0);
	int by_read = streq(argv[1], "read");
	int sync = argc < 4 || !streq(argv[3], "nosync");
	int fd = open(argv[2], O_RDONLY, 0);
	if (fd < 0)
		die(201, "open", fd);

	const struct ehdr *header = look(fd, by_read);
	map(fd, header, &object);
	if (!by_read)
		munmap((void *)header, PAGE_SIZE);
	close(fd);
	relocate(&object, sync);

	const struct sym *demo = lookup(&object, "demo_sum");
	const struct sym *text = lookup(&object, "text_functions");
	const struct sym *links = lookup(&object, "demo_links");
	if ((!demo || !links) && !text)
		die(207, "nothing to call", 0);
	u32 wrong = text ? call_text(object.base + text->value)
	                 : call_demo((u32(*)(u32))(object.base + demo->value),
	                       *(const u32 *)(object.base + links->value));
	if (wrong == 0)
		say("dl ok\n");
	return wrong;
}
