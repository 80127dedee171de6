/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: codebox-init's door. A socket in the sandbox's own network namespace, with a name that is not a
 * file, so that no program of the session can take it away. Whoever connects sends one message, which goes to codeboxd
 * as it is, and gets one back; at the port for Node, the message is a line. There is one asker at a time, from his
 * first byte until codeboxd has answered, even if he has gone meanwhile; others wait in the listener's queue. So
 * codeboxd has one question of a sandbox at most, at its own pace.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/limits.h"
#include "sandbox/init-ask.h"
#include "sandbox/plan.h"

#define WAITING 8 /* in the queue; who comes then waits to connect */

#define ANSWER_ROOM (2 * CBX_INIT_MESSAGE_MAX) /* of a socket: an answer is sent at once */

static int listeners[CBX_INIT_ASKS] = { -1, -1 }; /* by name; at the port */
static int asker = -1;
static bool stream;	 /* it came by the port */
static size_t have;	 /* of its line */
static uint64_t number;  /* of the last question */
static bool unanswered; /* codeboxd has it */
static char question[CBX_ASK_MAX + 1];

static void open_port(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_port = htons(CBX_INIT_DOOR_PORT),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), room = ANSWER_ROOM;

	if (fd < 0)
		return;
	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)) == 0 &&
	    bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0 && listen(fd, WAITING) == 0)
		listeners[1] = fd;
	else
		close(fd);
}

int cbx_init_ask_open(void)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	char link[sizeof(CBX_MODULES_LINK)];
	int listener;

	memcpy(name.sun_path + 1, CBX_INIT_DOOR, sizeof(CBX_INIT_DOOR) - 1);
	if (readlink(CBX_INSIDE_MODULES, link, sizeof(link)) == sizeof(link) - 1)
		open_port();
	listeners[0] = listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	return listener < 0 || bind(listener, (struct sockaddr *)&name,
				    offsetof(struct sockaddr_un, sun_path) + sizeof(CBX_INIT_DOOR)) < 0 ||
			       listen(listener, WAITING) < 0 ?
		       -1 :
		       0;
}

void cbx_init_ask_wait(struct pollfd p[CBX_INIT_ASKS])
{
	for (int i = 0; i < CBX_INIT_ASKS; i++)
		p[i] = (struct pollfd){ asker < 0 && !unanswered ? listeners[i] : -1, POLLIN, 0 };
	if (asker >= 0)
		p[0].fd = asker;
}

static void leave(void)
{
	close(asker);
	asker = -1;
}

static void take_asker(void)
{
	for (int i = 0; asker < 0 && i < CBX_INIT_ASKS; i++) {
		asker = accept4(listeners[i], NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		stream = i == 1;
	}
	have = 0;
}

/* n more bytes have come: the length of the line, or of what is too long to be one; or there is more to come. */
static ssize_t line(ssize_t n, bool *ret_more)
{
	const char *end;

	have += (size_t)n;
	end = memchr(question, '\n', have);
	*ret_more = !end && have <= CBX_ASK_MAX;
	return end ? end - question : (ssize_t)have;
}

bool cbx_init_ask_come(struct cbx_init_header *h, const char **text)
{
	bool more = false;
	ssize_t n;

	if (asker < 0) {
		take_asker();
		return false;
	}
	n = recv(asker, question + have, sizeof(question) - have, MSG_DONTWAIT | (stream ? 0 : MSG_TRUNC));
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (stream && n > 0 && !unanswered)
		n = line(n, &more);
	if (more)
		return false;
	*h = (struct cbx_init_header){ .type = CBX_INIT_ASKED, .arg = number };
	*text = question;
	if (unanswered || n <= 0 || (size_t)n > CBX_ASK_MAX) { /* it has gone, or is not a question */
		leave();
		return unanswered;
	}
	unanswered = true;
	h->arg = ++number;
	h->len = (uint32_t)n;
	return true;
}

int64_t cbx_init_tell(const struct cbx_init_header *h, const char *data)
{
	ssize_t n = 0;

	if (!unanswered || h->arg != number)
		return -ESRCH;
	unanswered = false;
	if (asker >= 0) {
		n = h->len ? send(asker, data, h->len, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;
		leave();
	}
	return n < 0 ? -errno : 0;
}
