/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A strict parser of JSON: to check that a text is JSON, and to find a value in it.
 */
#ifndef CTL_JSON_H
#define CTL_JSON_H

#include "guest.h"

#define JSON_DEPTH	16

static inline const char *json_space(const char *p)
{
	return p + strspn(p, " \t\n\r");
}

/* Returns the end of the string that begins at @p, or NULL if it is invalid. */
static inline const char *json_string(const char *p)
{
	int i;

	if (*p++ != '"')
		return NULL;
	for (; *p != '"'; p++) {
		if ((unsigned char)*p < 0x20)
			return NULL;
		if (*p != '\\')
			continue;
		p++;
		if (*p == 'u') {
			for (i = 1; i <= 4; i++)
				if (!p[i] || !strchr("0123456789abcdefABCDEF", p[i]))
					return NULL;
			p += 4;
		} else if (!*p || !strchr("\"\\/bfnrt", *p)) {
			return NULL;
		}
	}
	return p + 1;
}

static inline const char *json_digits(const char *p)
{
	size_t n = strspn(p, "0123456789");

	return n ? p + n : NULL;
}

static inline const char *json_number(const char *p)
{
	p += *p == '-';
	if (*p == '0' && p[1] >= '0' && p[1] <= '9')
		return NULL;
	p = json_digits(p);
	if (p && *p == '.')
		p = json_digits(p + 1);
	if (p && (*p == 'e' || *p == 'E')) {
		p++;
		p = json_digits(p + (*p == '+' || *p == '-'));
	}
	return p;
}

static inline const char *json_value(const char *p, int depth);

/* Does the key of @member come again before the end of the object? */
static inline bool json_key_again(const char *object, const char *member, int depth)
{
	size_t len = json_string(member) - member;
	const char *p = json_space(object + 1);

	while (p != member) {
		if ((size_t)(json_string(p) - p) == len && !memcmp(p, member, len))
			return true;
		p = json_space(json_string(p));
		p = json_space(json_value(json_space(p + 1), depth));
		p = json_space(p + 1);
	}
	return false;
}

/* Returns the end of the value that begins at @p, or NULL if it is invalid. */
static inline const char *json_value(const char *p, int depth)
{
	static const char *const words[] = { "true", "false", "null" };
	const char *begin = p;
	bool object = *p == '{';
	char close = object ? '}' : ']';
	unsigned int i;

	if (*p == '"')
		return json_string(p);
	if (*p == '-' || (*p >= '0' && *p <= '9'))
		return json_number(p);
	for (i = 0; i < ARRAY_SIZE(words); i++)
		if (!strncmp(p, words[i], strlen(words[i])))
			return p + strlen(words[i]);
	if ((*p != '{' && *p != '[') || depth == JSON_DEPTH)
		return NULL;
	p = json_space(p + 1);
	if (*p == close)
		return p + 1;
	for (;;) {
		if (object) {
			if (!json_string(p) || json_key_again(begin, p, depth + 1))
				return NULL;
			p = json_space(json_string(p));
			if (*p != ':')
				return NULL;
			p = json_space(p + 1);
		}
		p = json_value(p, depth + 1);
		if (!p)
			return NULL;
		p = json_space(p);
		if (*p == close)
			return p + 1;
		if (*p != ',')
			return NULL;
		p = json_space(p + 1);
	}
}

/* One value, and nothing after it. */
static inline bool json_valid(const char *text)
{
	const char *end = json_value(json_space(text), 0);

	return end && !*json_space(end);
}

/*
 * The value at @path, such as "wheels.0.name", in valid JSON, or NULL. json_value() returns its
 * end.
 */
static inline const char *json_find(const char *text, const char *path)
{
	const char *p = json_space(text);
	size_t len;

	while (*path) {
		unsigned long index = strtoul(path, NULL, 10);
		bool object = *p == '{';

		len = strcspn(path, ".");
		if ((!object && *p != '[') || *json_space(p + 1) == (object ? '}' : ']'))
			return NULL;
		p = json_space(p + 1);
		for (;;) {
			const char *key = p;

			if (object)
				p = json_space(json_space(json_string(p)) + 1);
			if (object ? (size_t)(json_string(key) - key) == len + 2 &&
				     !memcmp(key + 1, path, len) : !index--)
				break;
			p = json_space(json_value(p, 0));
			if (*p != ',')
				return NULL;
			p = json_space(p + 1);
		}
		path += len + (path[len] == '.');
	}
	return p;
}

#define must_json(text, path) must_json_(__LINE__, text, path)

static inline const char *must_json_(int line, const char *text, const char *path)
{
	const char *value;

	if (!json_valid(text))
		die("line %d: not JSON: '%s'", line, text);
	value = json_find(text, path);
	if (!value)
		die("line %d: no '%s' in: '%s'", line, path, text);
	return value;
}

/* A number, without quotes. */
#define must_json_number(text, path) must_json_number_(__LINE__, text, path)

static inline double must_json_number_(int line, const char *text, const char *path)
{
	const char *value = must_json_(line, text, path);

	if (*value != '-' && (*value < '0' || *value > '9'))
		die("line %d: '%s' is no number in: '%s'", line, path, text);
	return strtod(value, NULL);
}

/* Compare a value with @value, which is JSON: "null", "\"text\"". */
static inline bool json_is(const char *text, const char *path, const char *value)
{
	const char *p = must_json(text, path);

	return (size_t)(json_value(p, 0) - p) == strlen(value) && !memcmp(p, value, strlen(value));
}

#endif /* CTL_JSON_H */
