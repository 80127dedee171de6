/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both ends of the bench's line "proxy".
 *
 *   tcp serve                              listens on the loopback, prints its port, answers GET /N with N bytes
 *   tcp ask PORT PROXY BYTES COUNT CLIENTS makes COUNT requests, one for each connection, in CLIENTS processes; to the
 *                                          server at PORT, through the proxy at PROXY unless that is 0. Prints how many
 *                                          seconds it took.
 */
#include <arpa/inet.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SERVERS 4
static char piece[1 << 18];

static bool send_all(int fd, const char *p, size_t n)
{
	while (n) {
		ssize_t sent = send(fd, p, n, MSG_NOSIGNAL);

		if (sent <= 0)
			return false;
		p += sent;
		n -= (size_t)sent;
	}
	return true;
}

/* A request's or an answer's head; how many bytes were read. */
static size_t read_head(int fd, char *p, size_t max)
{
	size_t len = 0;

	for (ssize_t n = 1; n > 0 && len<max - 1; len += n> 0 ? (size_t)n : 0) {
		p[len] = '\0';
		if (strstr(p, "\r\n\r\n"))
			break;
		n = recv(fd, p + len, max - 1 - len, 0);
	}
	p[len] = '\0';
	return len;
}

static void answer(int fd)
{
	char text[4096];
	unsigned long left;
	bool ok;

	read_head(fd, text, sizeof(text));
	left = strncmp(text, "GET /", 5) == 0 ? strtoul(text + 5, NULL, 10) : 0;
	snprintf(text, sizeof(text), "HTTP/1.1 200 OK\r\nContent-Length: %lu\r\n\r\n", left);
	ok = send_all(fd, text, strlen(text));
	for (unsigned long some; ok && left; left -= some) {
		some = left < sizeof(piece) ? left : sizeof(piece);
		ok = send_all(fd, piece, some);
	}
}

static int serve(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t len = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&at, len) < 0 || listen(fd, 1024) < 0 ||
	    getsockname(fd, (struct sockaddr *)&at, &len) < 0)
		return 1;
	printf("%u\n", ntohs(at.sin_port));
	fflush(stdout);
	memset(piece, 'x', sizeof(piece));
	for (int i = 1; i < SERVERS && fork() > 0; i++)
		;
	for (;;) {
		int one = accept(fd, NULL, NULL);

		if (one < 0)
			return 1;
		answer(one);
		close(one);
	}
}

/* False: it is not what was asked for. */
static bool ask(unsigned port, unsigned proxy, unsigned long bytes)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)(proxy ? proxy : port)),
				  .sin_addr = { htonl(INADDR_LOOPBACK) } };
	char text[4096], host[40] = "";
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	unsigned long got = 0;
	size_t len = 0, head;
	bool ok;

	if (proxy)
		snprintf(host, sizeof(host), "http://127.0.0.1:%u", port);
	snprintf(text, sizeof(text), "GET %s/%lu HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n\r\n", host, bytes, port);
	ok = fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0 && send_all(fd, text, strlen(text));
	if (ok)
		len = read_head(fd, text, sizeof(text));
	ok = ok && strncmp(text, "HTTP/1.1 200 ", 13) == 0 && strstr(text, "\r\n\r\n");
	head = ok ? (size_t)(strstr(text, "\r\n\r\n") + 4 - text) : 0;
	got = len - head;
	for (ssize_t n = 1; ok && n > 0; got += n > 0 ? (size_t)n : 0)
		n = recv(fd, piece, sizeof(piece), 0);
	close(fd);
	return ok && got == bytes;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int ask_often(const unsigned long *n)
{
	unsigned long count = n[3], clients = n[4];
	double begin = now();
	int status, wrong = 0;

	for (unsigned long i = 0; i < clients; i++)
		if (fork() == 0) {
			for (unsigned long k = i; k < count; k += clients)
				if (!ask((unsigned)n[0], (unsigned)n[1], n[2]))
					_exit(1);
			_exit(0);
		}
	while (wait(&status) > 0)
		wrong += status != 0;
	printf("%.6f\n", now() - begin);
	return wrong != 0;
}

int main(int argc, char **argv)
{
	unsigned long n[5];

	if (argc == 2 && strcmp(argv[1], "serve") == 0)
		return serve();
	if (argc != 7 || strcmp(argv[1], "ask") != 0)
		return 2;
	for (int i = 0; i < 5; i++)
		n[i] = strtoul(argv[i + 2], NULL, 10);
	return ask_often(n);
}
