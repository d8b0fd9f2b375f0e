// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimerctl idle: the rules of the module hwtimer_idle, by generic netlink; and their counters,
 * for hwtimerctl metrics.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/genetlink.h>
#include <linux/hwtimer_idle.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <libmnl/libmnl.h>

#include "ctl.h"

/* "[ADDRESS]:PORT" */
#define PLACE_SIZE	(INET6_ADDRSTRLEN + sizeof("[]:65535"))

/* An address with a port; a length of 0: no address. */
struct place {
	unsigned char address[16];
	uint16_t length, port;
};

/* In the order of HWTIMER_IDLE_ATTR_WATCHED ... SPARED. */
static const struct {
	const char *name, *metric, *help;
} counters[] = {
	{ "watched", "watched", "Connections that the rule watches now" },
	{ "closed", "closed_total",
	  "How often a connection was idle, and the action was done to it" },
	{ "looks", "looks_total", "Looks at a connection" },
	{ "refused", "refused_total",
	  "How often a connection was not watched, by the limit or for lack of memory" },
	{ "spared", "spared_total", "Looks that found silence in the server's turn" },
};

struct rule {
	struct place place, peer;	/* peer: of an event */
	uint32_t span_ms, limit;
	uint8_t action;
	bool any_silence;
	uint64_t counts[ARRAY_SIZE(counters)];
};

static const char *const actions[] = { "shutdown", "reset", "notify" };

static struct mnl_socket *nl;
static uint16_t family;			/* 0: the module is not loaded */
static uint32_t events_group;
static char explanation[256];		/* of the last error, by the kernel */
static union {
	struct nlmsghdr header;
	char bytes[32768];		/* the most that the kernel puts into a message of a dump */
} message;

static struct rule *rules;
static unsigned int n_rules;

static struct nlmsghdr *put_request(uint16_t type, uint8_t command, uint16_t flags)
{
	struct nlmsghdr *request = mnl_nlmsg_put_header(&message);
	struct genlmsghdr *genl = mnl_nlmsg_put_extra_header(request, sizeof(*genl));
	static uint32_t seq;

	request->nlmsg_type = type;
	request->nlmsg_flags = NLM_F_REQUEST | flags;
	request->nlmsg_seq = ++seq;
	genl->cmd = command;
	genl->version = HWTIMER_IDLE_VERSION;
	return request;
}

/* An error, or, with 0, the end of what was asked for. */
static int take_error(const struct nlmsghdr *header, void *arg)
{
	const struct nlmsgerr *error = mnl_nlmsg_get_payload(header);
	const struct nlattr *attr;

	(void)arg;
	if (!error->error)
		return MNL_CB_STOP;
	if (header->nlmsg_flags & NLM_F_ACK_TLVS) {
		mnl_attr_for_each(attr, header, sizeof(*error)) {
			if (mnl_attr_get_type(attr) == NLMSGERR_ATTR_MSG)
				snprintf(explanation, sizeof(explanation), "%s",
					 mnl_attr_get_str(attr));
		}
	}
	errno = -error->error;
	return MNL_CB_ERROR;
}

/* Send a request, and give each message of the answer to @take. Returns 0 or an error. */
static int ask(const struct nlmsghdr *request, mnl_cb_t take)
{
	static mnl_cb_t control[] = { [NLMSG_ERROR] = take_error };
	uint32_t seq = request->nlmsg_seq, port = mnl_socket_get_portid(nl);
	int ret = MNL_CB_OK;
	ssize_t len;

	explanation[0] = 0;
	if (mnl_socket_sendto(nl, request, request->nlmsg_len) < 0)
		return errno;
	while (ret == MNL_CB_OK) {
		len = mnl_socket_recvfrom(nl, &message, sizeof(message));
		if (len < 0)
			return errno;
		ret = mnl_cb_run2(&message, len, seq, port, take, NULL, control,
				  ARRAY_SIZE(control));
	}
	return ret == MNL_CB_ERROR ? errno : 0;
}

static void take_group(const struct nlattr *group)
{
	const struct nlattr *attr;

	mnl_attr_for_each_nested(attr, group) {
		if (mnl_attr_get_type(attr) == CTRL_ATTR_MCAST_GRP_ID)
			events_group = mnl_attr_get_u32(attr);
	}
}

/* A family: is it ours? Our only group is that of the events. */
static int take_family(const struct nlmsghdr *header, void *arg)
{
	const struct nlattr *attr, *group, *groups = NULL;
	const char *name = "";
	uint16_t id = 0;

	(void)arg;
	mnl_attr_for_each(attr, header, sizeof(struct genlmsghdr)) {
		switch (mnl_attr_get_type(attr)) {
		case CTRL_ATTR_FAMILY_NAME:
			name = mnl_attr_get_str(attr);
			break;
		case CTRL_ATTR_FAMILY_ID:
			id = mnl_attr_get_u16(attr);
			break;
		case CTRL_ATTR_MCAST_GROUPS:
			groups = attr;
			break;
		}
	}
	if (strcmp(name, HWTIMER_IDLE_FAMILY))
		return MNL_CB_OK;
	family = id;
	if (groups) {
		mnl_attr_for_each_nested(group, groups) {
			take_group(group);
		}
	}
	return MNL_CB_OK;
}

/* Find the family among all: to ask for its name would make the kernel run modprobe. */
static void find_family(void)
{
	int one = 1, error;

	nl = mnl_socket_open2(NETLINK_GENERIC, SOCK_CLOEXEC);
	if (!nl && errno == EAFNOSUPPORT)
		return;		/* a kernel without networks */
	if (!nl || mnl_socket_bind(nl, 0, MNL_SOCKET_AUTOPID) ||
	    mnl_socket_setsockopt(nl, NETLINK_EXT_ACK, &one, sizeof(one)) ||
	    mnl_socket_setsockopt(nl, NETLINK_CAP_ACK, &one, sizeof(one)))
		ctl_failed(errno, "netlink");
	error = ask(put_request(GENL_ID_CTRL, CTRL_CMD_GETFAMILY, NLM_F_DUMP), take_family);
	if (error)
		ctl_failed(error, "netlink");
}

static void must_find_family(void)
{
	find_family();
	if (!family)
		ctl_die(CTL_NO_DEVICE,
			"the module hwtimer_idle is not loaded (modprobe hwtimer_idle)");
}

static void take_address(struct place *place, const struct nlattr *attr)
{
	place->length = mnl_attr_get_payload_len(attr);
	if (place->length > sizeof(place->address))
		place->length = sizeof(place->address);
	memcpy(place->address, mnl_attr_get_payload(attr), place->length);
}

static void take_attribute(struct rule *rule, const struct nlattr *attr)
{
	unsigned int type = mnl_attr_get_type(attr);

	switch (type) {
	case HWTIMER_IDLE_ATTR_ADDRESS:
		take_address(&rule->place, attr);
		break;
	case HWTIMER_IDLE_ATTR_PORT:
		rule->place.port = mnl_attr_get_u16(attr);
		break;
	case HWTIMER_IDLE_ATTR_SPAN_MS:
		rule->span_ms = mnl_attr_get_u32(attr);
		break;
	case HWTIMER_IDLE_ATTR_ACTION:
		rule->action = mnl_attr_get_u8(attr);
		break;
	case HWTIMER_IDLE_ATTR_ANY_SILENCE:
		rule->any_silence = true;
		break;
	case HWTIMER_IDLE_ATTR_LIMIT:
		rule->limit = mnl_attr_get_u32(attr);
		break;
	case HWTIMER_IDLE_ATTR_WATCHED ... HWTIMER_IDLE_ATTR_SPARED:
		rule->counts[type - HWTIMER_IDLE_ATTR_WATCHED] = mnl_attr_get_u64(attr);
		break;
	case HWTIMER_IDLE_ATTR_PEER:
		take_address(&rule->peer, attr);
		break;
	case HWTIMER_IDLE_ATTR_PEER_PORT:
		rule->peer.port = mnl_attr_get_u16(attr);
		break;
	}
}

static struct rule rule_of(const struct nlmsghdr *header)
{
	struct rule rule = { 0 };
	const struct nlattr *attr;

	mnl_attr_for_each(attr, header, sizeof(struct genlmsghdr)) {
		take_attribute(&rule, attr);
	}
	return rule;
}

static int take_rule(const struct nlmsghdr *header, void *arg)
{
	(void)arg;
	rules = realloc(rules, (n_rules + 1) * sizeof(*rules));
	if (!rules)
		ctl_die(CTL_FAILED, "out of memory");
	rules[n_rules++] = rule_of(header);
	return MNL_CB_OK;
}

static int by_place(const void *a, const void *b)
{
	const struct place *x = &((const struct rule *)a)->place;
	const struct place *y = &((const struct rule *)b)->place;

	if (x->port != y->port)
		return x->port < y->port ? -1 : 1;
	if (x->length != y->length)
		return x->length < y->length ? -1 : 1;
	return memcmp(x->address, y->address, x->length);
}

static void read_rules(void)
{
	int error;

	for (;;) {
		n_rules = 0;
		error = ask(put_request(family, HWTIMER_IDLE_CMD_GET, NLM_F_DUMP), take_rule);
		if (error != EINTR)
			break;
		/* They were changed meanwhile. The rest of this answer goes with the socket. */
		mnl_socket_close(nl);
		find_family();
	}
	if (error)
		ctl_failed(error, "cannot read the rules");
	qsort(rules, n_rules, sizeof(*rules), by_place);
}

/* Read the rules, if the module is loaded, for ctl_idle_metrics(). */
void ctl_idle_read(void)
{
	find_family();
	if (family)
		read_rules();
}

static const char *address_text(const struct place *place, char text[PLACE_SIZE])
{
	inet_ntop(place->length == 4 ? AF_INET : AF_INET6, place->address, text, PLACE_SIZE);
	return text;
}

/* As the command line has it. */
static const char *place_text(const struct place *place, char text[PLACE_SIZE])
{
	char address[PLACE_SIZE];

	if (place->length)
		snprintf(text, PLACE_SIZE, place->length == 4 ? "%s:%u" : "[%s]:%u",
			 address_text(place, address), place->port);
	else
		snprintf(text, PLACE_SIZE, "%u", place->port);
	return text;
}

static const char *action_name(uint8_t action)
{
	return action < ARRAY_SIZE(actions) ? actions[action] : "?";
}

/* All samples of a metric have to be together. */
void ctl_idle_metrics(void)
{
	char text[PLACE_SIZE];
	unsigned int i, j;

	for (i = 0; i < ARRAY_SIZE(counters) && n_rules; i++) {
		printf("# HELP hwtimer_idle_%s %s.\n# TYPE hwtimer_idle_%s %s\n",
		       counters[i].metric, counters[i].help, counters[i].metric,
		       strstr(counters[i].metric, "_total") ? "counter" : "gauge");
		for (j = 0; j < n_rules; j++)
			printf("hwtimer_idle_%s{rule=\"%s\"} %" PRIu64 "\n",
			       counters[i].metric, place_text(&rules[j].place, text),
			       rules[j].counts[i]);
	}
}

static void parse_port(const char *text, struct place *place)
{
	unsigned long port = strtoul(text, NULL, 10);

	if (!*text || text[strspn(text, "0123456789")] || !port || port > UINT16_MAX)
		ctl_misuse("PORT: must be from 1 to 65535, not '%s'", text);
	place->port = port;
}

static void parse_place(const char *text, struct place *place)
{
	const char *colon = strrchr(text, ':');
	char address[PLACE_SIZE];
	size_t len;

	*place = (struct place){ 0 };
	parse_port(colon ? colon + 1 : text, place);
	if (!colon)
		return;
	len = colon - text;
	if (text[0] == '[' && len > 2 && text[len - 1] == ']') {
		place->length = 16;
		text++;
		len -= 2;
	} else {
		place->length = 4;
	}
	snprintf(address, sizeof(address), "%.*s", (int)len, text);
	if (len >= sizeof(address) ||
	    inet_pton(place->length == 4 ? AF_INET : AF_INET6, address, place->address) != 1)
		ctl_misuse("ADDRESS: not an %s address: '%.*s' (IPv6: [ADDRESS]:PORT)",
			   place->length == 4 ? "IPv4" : "IPv6", (int)len, text);
}

static const char *must_have(struct ctl_args *args, const char *what)
{
	const char *word = ctl_next_word(args);

	if (!word)
		ctl_misuse("%s: missing", what);
	return word;
}

static uint32_t parse_span(const char *text)
{
	uint64_t ns = ctl_parse_duration("SPAN", text);

	if (ns < HWTIMER_IDLE_MIN_MS * NSEC_PER_MSEC)
		ctl_misuse("SPAN: less than a second: '%s'", text);
	if (ns > HWTIMER_IDLE_MAX_MS * NSEC_PER_MSEC)
		ctl_misuse("SPAN: more than 30 days: '%s'", text);
	/* Rounded up, so that nothing is early. */
	return (ns + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC;
}

static struct nlmsghdr *put_place(uint8_t command, const struct place *place)
{
	struct nlmsghdr *request = put_request(family, command, NLM_F_ACK);

	mnl_attr_put_u16(request, HWTIMER_IDLE_ATTR_PORT, place->port);
	if (place->length)
		mnl_attr_put(request, HWTIMER_IDLE_ATTR_ADDRESS, place->length, place->address);
	return request;
}

static _Noreturn void no_such_rule(const char *text)
{
	char place[PLACE_SIZE], *there = NULL;
	unsigned int i;

	read_rules();
	for (i = 0; i < n_rules; i++)
		ctl_add_name(&there, place_text(&rules[i].place, place));
	ctl_die(CTL_FAILED, "%s: no such rule (there are: %s)", text, there ?: "none");
}

/* Let the kernel do it, or exit. */
static void must_do(const struct nlmsghdr *request, const struct place *place)
{
	int error = ask(request, NULL);
	char text[PLACE_SIZE];
	const char *why = explanation;

	if (!error)
		return;
	place_text(place, text);
	if (error == EPERM)
		ctl_denied(text, "CAP_NET_ADMIN in the initial user namespace (no container)");
	if (error == ENOENT)
		no_such_rule(text);
	if (!*why && error == EEXIST)
		why = "there is a rule already (idle del deletes it)";
	ctl_die(CTL_FAILED, "%s: %s", text, *why ? why : strerror(error));
}

static void add_rule(struct ctl_args *args)
{
	bool reset = false, shutdown = false, notify = false, any_silence = false;
	uint64_t limit = 0;
	const struct ctl_option options[] = {
		{ "reset", 0, CTL_FLAG, &reset, 0, 0 },
		{ "shutdown", 0, CTL_FLAG, &shutdown, 0, 0 },
		{ "notify", 0, CTL_FLAG, &notify, 0, 0 },
		{ "any-silence", 0, CTL_FLAG, &any_silence, 0, 0 },
		{ "limit", 0, CTL_NUMBER, &limit, 1, UINT32_MAX },
	};
	struct nlmsghdr *request;
	struct place place;
	uint32_t span_ms;

	args->options = options;
	args->n_options = ARRAY_SIZE(options);
	parse_place(must_have(args, "PORT"), &place);
	span_ms = parse_span(must_have(args, "SPAN"));
	ctl_must_end(args);
	if (reset + shutdown + notify > 1)
		ctl_misuse("--reset, --shutdown and --notify exclude each other");

	must_find_family();
	request = put_place(HWTIMER_IDLE_CMD_ADD, &place);
	mnl_attr_put_u32(request, HWTIMER_IDLE_ATTR_SPAN_MS, span_ms);
	mnl_attr_put_u8(request, HWTIMER_IDLE_ATTR_ACTION, reset ? HWTIMER_IDLE_RESET :
			notify ? HWTIMER_IDLE_NOTIFY : HWTIMER_IDLE_SHUTDOWN);
	if (any_silence)
		mnl_attr_put(request, HWTIMER_IDLE_ATTR_ANY_SILENCE, 0, NULL);
	if (limit)
		mnl_attr_put_u32(request, HWTIMER_IDLE_ATTR_LIMIT, limit);
	must_do(request, &place);
}

static void del_rule(struct ctl_args *args)
{
	struct place place;

	parse_place(must_have(args, "PORT"), &place);
	ctl_must_end(args);
	must_find_family();
	must_do(put_place(HWTIMER_IDLE_CMD_DEL, &place), &place);
}

static void json_rule(const struct rule *rule)
{
	char text[PLACE_SIZE];
	unsigned int i;

	ctl_json_open(NULL, '{');
	if (rule->place.length)
		ctl_json_text("address", address_text(&rule->place, text));
	else
		ctl_json_null("address");
	ctl_json_number("port", rule->place.port);
	ctl_json_number("span_ms", rule->span_ms);
	ctl_json_text("action", action_name(rule->action));
	ctl_json_text("silence", rule->any_silence ? "any" : "client");
	ctl_json_number("limit", rule->limit);
	for (i = 0; i < ARRAY_SIZE(counters); i++)
		ctl_json_number(counters[i].name, rule->counts[i]);
	ctl_json_close('}');
	ctl_json_end();
}

static void print_rule(const struct rule *rule)
{
	char place[PLACE_SIZE], span[32];
	unsigned int i;

	snprintf(span, sizeof(span), "%.10gs", rule->span_ms / 1e3);
	printf("%-21s %9s  %-8s  %-6s %10" PRIu32, place_text(&rule->place, place), span,
	       action_name(rule->action), rule->any_silence ? "any" : "client", rule->limit);
	for (i = 0; i < ARRAY_SIZE(counters); i++)
		printf(" %9" PRIu64, rule->counts[i]);
	putchar('\n');
}

static void list_rules(struct ctl_args *args)
{
	bool json = false;
	const struct ctl_option options[] = { { "json", 0, CTL_FLAG, &json, 0, 0 } };
	unsigned int i;

	args->options = options;
	args->n_options = ARRAY_SIZE(options);
	ctl_must_end(args);
	must_find_family();
	read_rules();
	if (!json)
		printf("%-21s %9s  %-8s  %-6s %10s %9s %9s %9s %9s %9s\n", "RULE", "SPAN", "ACTION",
		       "SILENT", "LIMIT", "WATCHED", "CLOSED", "LOOKS", "REFUSED", "SPARED");
	for (i = 0; i < n_rules; i++)
		(json ? json_rule : print_rule)(&rules[i]);
}

static int take_event(const struct nlmsghdr *header, void *arg)
{
	struct rule event = rule_of(header);
	char place[PLACE_SIZE], peer[PLACE_SIZE], now[64];

	(void)arg;
	printf("%s  %s  %s  %s\n", ctl_wall_time(now, sizeof(now)),
	       place_text(&event.place, place), place_text(&event.peer, peer),
	       action_name(event.action));
	ctl_flush();
	return MNL_CB_OK;
}

/* Until a signal ends us. */
static void print_events(struct ctl_args *args)
{
	ssize_t len;

	ctl_must_end(args);
	must_find_family();
	if (mnl_socket_setsockopt(nl, NETLINK_ADD_MEMBERSHIP, &events_group, sizeof(events_group)))
		ctl_failed(errno, "cannot receive the events");
	for (;;) {
		len = mnl_socket_recvfrom(nl, &message, sizeof(message));
		if (len >= 0)
			mnl_cb_run(&message, len, 0, 0, take_event, NULL);
		else if (errno == ENOBUFS)
			fputs("hwtimerctl idle: some events were lost\n", stderr);
		else if (errno != EINTR)
			ctl_failed(errno, "cannot receive the events");
	}
}

static int run_idle(struct ctl_args *args)
{
	static const struct {
		const char *name;
		void (*run)(struct ctl_args *args);
	} verbs[] = {
		{ "add", add_rule }, { "list", list_rules }, { "del", del_rule },
		{ "events", print_events },
	};
	const char *verb = must_have(args, "add, list, del or events");
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(verbs); i++) {
		if (!strcmp(verb, verbs[i].name)) {
			verbs[i].run(args);
			return CTL_OK;
		}
	}
	ctl_misuse("neither add, list, del nor events: '%s'", verb);
}

const struct ctl_command ctl_idle = {
	.name = "idle",
	.summary = "rules that close idle connections of TCP servers",
	.help = "idle add [ADDRESS:]PORT SPAN [--shutdown | --reset | --notify]\n"
		"                           [--any-silence] [--limit N]\n"
		"       hwtimerctl idle list [--json]\n"
		"       hwtimerctl idle del [ADDRESS:]PORT\n"
		"       hwtimerctl idle events\n\n"
		"Let the module hwtimer_idle close connections to a local PORT that have been\n"
		"idle for SPAN: it is the client's turn, and it sends nothing. Rules are those\n"
		"of this network namespace. All but \"list\" need CAP_NET_ADMIN.\n\n"
		"  --shutdown     close it as the server would (the default)\n"
		"  --reset        send a RST\n"
		"  --notify       only tell \"events\", after each SPAN\n"
		"  --any-silence  it is idle if neither side sends, whosever turn it is\n"
		"  --limit N      watch at most N connections at once (default: 262144)\n"
		"  --json         a JSON object per line for each rule\n"
		"  -h, --help     print this help\n",
	.run = run_idle,
};
