/*
 * The helpers of sys.h: strings, decimal output, checks.  Plain loops; built
 * with -fno-builtin so that the compiler does not call them from themselves.
 */
#include "sys.h"

u32
strlen(const char *s)
{
	const char *end = s;
	while (*end)
		end++;
	return end - s;
}

int
streq(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	return *a == *b;
}

int
memcmp(const void *a, const void *b, u32 bytes)
{
	const u8 *x = a, *y = b;
	for (; bytes; bytes--, x++, y++)
		if (*x != *y)
			return *x - *y;
	return 0;
}

void *
memcpy(void *to, const void *from, u32 bytes)
{
	u8 *x = to;
	const u8 *y = from;
	while (bytes--)
		*x++ = *y++;
	return to;
}

void *
memset(void *to, int byte, u32 bytes)
{
	u8 *x = to;
	while (bytes--)
		*x++ = byte;
	return to;
}

u32
number(const char *s)
{
	u32 n = 0;
	for (; *s >= '0' && *s <= '9'; s++)
		n = n * 10 + (*s - '0');
	return n;
}

static char line[128];
static u32 line_length;

static void
put(char c)
{
	line[line_length++] = c;
	if (c == '\n' || line_length == sizeof line) {
		write(1, line, line_length);
		line_length = 0;
	}
}

void
say(const char *s)
{
	while (*s)
		put(*s++);
}

void
say_number(u32 n, u32 digits_min)
{
	if (n >= 10 || digits_min > 1)
		say_number(n / 10, digits_min ? digits_min - 1 : 0);
	put('0' + n % 10);
}

int failures;

void
check(int good, const char *name)
{
	if (good)
		return;
	failures++;
	say("failed: ");
	say(name);
	say("\n");
}

void
die(int code, const char *what, int result)
{
	say("error: ");
	say(what);
	if (result < 0) {
		say(", errno ");
		say_number(-result, 1);
	}
	say("\n");
	exit(code);
}

int
sync_icache(void *addr, u32 bytes)
{
	struct {
		u32 addr, bytes;
	} args = { (u32)addr, bytes };
	return sysarch(0, &args);
}
