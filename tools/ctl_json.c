// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimerctl: text that others chose, and JSON on stdout, a value per line.
 */
#include <inttypes.h>

#include "ctl.h"

static bool first = true;	/* the object or array is still empty */

/*
 * The length of the UTF-8 character that begins here, or 0 if it is invalid. The ranges are those
 * of the Unicode standard: no overlong forms, no surrogates.
 */
static unsigned int utf8_length(const unsigned char *s)
{
	unsigned int length, i;
	unsigned char low = 0x80, high = 0xbf;

	if (s[0] < 0x80)
		return 1;
	if (s[0] >= 0xc2 && s[0] <= 0xdf)
		length = 2;
	else if (s[0] >= 0xe0 && s[0] <= 0xef)
		length = 3;
	else if (s[0] >= 0xf0 && s[0] <= 0xf4)
		length = 4;
	else
		return 0;
	if (s[0] == 0xe0)
		low = 0xa0;
	if (s[0] == 0xed)
		high = 0x9f;
	if (s[0] == 0xf0)
		low = 0x90;
	if (s[0] == 0xf4)
		high = 0x8f;
	for (i = 1; i < length; i++) {
		if (s[i] < low || s[i] > high)
			return 0;
		low = 0x80;
		high = 0xbf;
	}
	return length;
}

/* The length of the character that begins here, or 0 if a terminal must not get it. */
static unsigned int printable(const unsigned char *s)
{
	if (*s < 0x20 || *s == 0x7f || (s[0] == 0xc2 && s[1] < 0xa0))
		return 0;
	return utf8_length(s);
}

/* Control characters, and what is not UTF-8, as "\\x1b". Returns the number of characters. */
int ctl_print_safe(FILE *to, const char *text)
{
	const unsigned char *s = (const unsigned char *)text;
	unsigned int length;
	int width = 0;

	for (; *s; s += length ?: 1) {
		length = printable(s);
		width += length ? (int)fwrite(s, length, 1, to) : fprintf(to, "\\x%02x", *s);
	}
	return width;
}

static void put_string(const char *text)
{
	const unsigned char *s = (const unsigned char *)text;
	unsigned int length;

	putchar('"');
	for (; *s; s += length ?: 1) {
		length = utf8_length(s);
		if (!length)
			fputs("\\ufffd", stdout);
		else if (*s == '"' || *s == '\\')
			printf("\\%c", *s);
		else if (!printable(s))
			printf("\\u%04x", s[length - 1]);
		else
			fwrite(s, 1, length, stdout);
	}
	putchar('"');
}

static void begin(const char *key)
{
	if (!first)
		fputs(", ", stdout);
	first = false;
	if (key && *key) {
		put_string(key);
		fputs(": ", stdout);
	}
}

void ctl_json_open(const char *key, char bracket)
{
	begin(key);
	putchar(bracket);
	first = true;
}

void ctl_json_close(char bracket)
{
	putchar(bracket);
	first = false;
}

/* The value is complete: end its line, and pass it to the reader now. */
void ctl_json_end(void)
{
	putchar('\n');
	first = true;
	ctl_flush();
}

void ctl_json_text(const char *key, const char *text)
{
	begin(key);
	put_string(text);
}

void ctl_json_number(const char *key, uint64_t number)
{
	begin(key);
	printf("%" PRIu64, number);
}

void ctl_json_signed(const char *key, int64_t number)
{
	begin(key);
	printf("%" PRId64, number);
}

void ctl_json_null(const char *key)
{
	begin(key);
	fputs("null", stdout);
}
