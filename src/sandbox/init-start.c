/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: codebox-init's processes. Each is forked here, and executes its program at once, or when
 * codeboxd says so. A pipe that exec closes says whether that went well. One with a terminal has a second process
 * beside it, which copies bytes (init-terminal.c); the terminal's master is here, too, for its size.
 *
 * No allocation: a table of places. A place is free when both processes have ended.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/place.h"
#include "sandbox/init-start.h"
#include "sandbox/init-terminal.h"

static const char workspace[] = "/workspace";

/* Descriptors are 0 where there is none: 0 to 2 are taken from the start. */
struct started {
	pid_t pid;   /* 0: it has ended */
	pid_t relay; /* of its terminal; 0: there is none, or it has ended */
	int master;
	int go, report; /* it is held */
};

static struct started all[CBX_INIT_STARTED];

/* What a process that is forked needs to know. */
struct birth {
	char *argv[CBX_INIT_WORDS_MAX], *envp[CBX_INIT_WORDS_MAX];
	const char *directory; /* NULL: the workspace */
	bool anywhere;	       /* or the workspace, if that is not there */
	const int *fds;
	size_t nfds;
	int slave;
	int go, report; /* its ends */
};

struct failure {
	int code;
	enum cbx_init_step step;
};

static void close_fd(int *fd)
{
	if (*fd)
		close(*fd);
	*fd = 0;
}

/* ---- in the forked process ---- */

/* The search continues only past what is not there, or is not a directory on the way. */
static void search(char **argv, char **envp, const char *path)
{
	char file[4096];
	int denied = 0;

	for (const char *end; path; path = *end ? end + 1 : NULL) {
		int n = (int)((end = strchrnul(path, ':')) - path);

		if ((size_t)snprintf(file, sizeof(file), "%.*s%s%s", n, path, n ? "/" : "", argv[0]) >= sizeof(file))
			continue;
		execve(file, argv, envp);
		if (errno == EACCES)
			denied = 1;
		else if (errno != ENOENT && errno != ENOTDIR)
			return;
	}
	errno = denied ? EACCES : ENOENT;
}

static void execute(char **argv, char **envp)
{
	const char *path = "/usr/local/bin:/usr/bin:/bin";

	for (char **e = envp; *e; e++)
		if (strncmp(*e, "PATH=", 5) == 0)
			path = *e + 5;
	if (strchr(argv[0], '/'))
		execve(argv[0], argv, envp);
	else if (argv[0][0])
		search(argv, envp, path);
	else
		errno = ENOENT;
}

static int place(const struct birth *b)
{
	static const int to[CBX_INTERPRETER_FDS] = { 0, 1, 2, 3, 4 };
	int r = b->slave ? cbx_place_fds((int[]){ b->slave, b->slave, b->slave }, to, 3) :
			   cbx_place_fds(b->fds, to, b->nfds);

	if (r < 0) {
		errno = -r;
		return -1;
	}
	if (b->slave)
		return 0;
	/* What is left, the pipe that reports an error included, is close-on-exec. */
	return b->nfds == 3 ? fcntl(CBX_INIT_SOCKET, F_SETFD, FD_CLOEXEC) : 0;
}

/* Returns only on failure, with errno set. */
static enum cbx_init_step be_born(struct birth *b)
{
	sigset_t none;
	char go;

	for (int sig = 1; sig < NSIG; sig++)
		signal(sig, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (setsid() < 0)
		return CBX_INIT_STEP_PROCESS;
	if (b->go && read(b->go, &go, 1) != 1)
		_exit(126);
	if (b->slave && ioctl(b->slave, TIOCSCTTY, 0) < 0)
		return CBX_INIT_STEP_TERMINAL;
	if (chdir(workspace) < 0 || (b->directory && chdir(b->directory) < 0 && !b->anywhere))
		return CBX_INIT_STEP_DIRECTORY;
	umask(022);
	if (place(b) == 0)
		execute(b->argv, b->envp);
	return CBX_INIT_STEP_EXEC;
}

_Noreturn static void child(struct birth *b)
{
	struct failure f = { 0 };

	/* Out of the way of what is placed. */
	b->report = fcntl(b->report, F_DUPFD_CLOEXEC, 128);
	f.step = be_born(b);
	f.code = errno;
	if (write(b->report, &f, sizeof(f)) < 0)
		_exit(126);
	_exit(127);
}

/* ---- starting ---- */

static int make_terminal(uint64_t size, int *master, int *slave)
{
	struct winsize w = { .ws_row = (unsigned short)(size >> 16), .ws_col = (unsigned short)size };
	int unlock = 0, number;
	char name[32];

	*master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	if (*master < 0 || ioctl(*master, TIOCSPTLCK, &unlock) < 0 || ioctl(*master, TIOCGPTN, &number) < 0)
		return -1;
	snprintf(name, sizeof(name), "/dev/pts/%d", number);
	*slave = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (*slave < 0)
		return -1;
	if (w.ws_row || w.ws_col)
		(void)ioctl(*slave, TIOCSWINSZ, &w);
	return 0;
}

/* Both ends are close-on-exec. */
static int make_pipe(int *reads, int *writes)
{
	int pair[2];

	if (pipe2(pair, O_CLOEXEC) < 0)
		return -1;
	*reads = pair[0];
	*writes = pair[1];
	return 0;
}

/* End of file: the exec has closed the pipe. */
static struct failure outcome(int report)
{
	struct failure f;

	if (read(report, &f, sizeof(f)) != (ssize_t)sizeof(f))
		return (struct failure){ 0 };
	return f;
}

static int parse(const struct cbx_init_header *h, char *data, size_t nfds, struct birth *b)
{
	char *p = data, *end = data + h->len;
	bool terminal = h->value & CBX_INIT_SPAWN_TERMINAL;

	if ((terminal ? nfds != 2 : nfds < 3) || nfds > CBX_INTERPRETER_FDS ||
	    (h->value & ~(CBX_INIT_SPAWN_HELD | CBX_INIT_SPAWN_TERMINAL | CBX_INIT_SPAWN_ANYWHERE)) ||
	    cbx_init_split_some(&p, end, h->arg >> CBX_INIT_WORDS, b->argv) < 1 || cbx_init_split(&p, end, b->envp) < 0)
		return -1;
	b->directory = p < end && *p ? p : NULL;
	b->anywhere = h->value & CBX_INIT_SPAWN_ANYWHERE;
	return p < end && !memchr(p, '\0', (size_t)(end - p)) ? -1 : 0;
}

static pid_t fork_relay(int master, int slave, const int *fds)
{
	pid_t pid = fork();

	if (pid == 0) {
		close(slave);
		cbx_init_relay(master, fds[0], fds[1]);
	}
	return pid;
}

/* All of it, or errno and what failed. */
static enum cbx_init_step begin(const struct cbx_init_header *h, struct birth *b, struct started *s)
{
	if ((h->value & CBX_INIT_SPAWN_TERMINAL) && make_terminal(h->arg, &s->master, &b->slave) < 0)
		return CBX_INIT_STEP_TERMINAL;
	if (make_pipe(&s->report, &b->report) < 0 ||
	    ((h->value & CBX_INIT_SPAWN_HELD) && make_pipe(&b->go, &s->go) < 0))
		return CBX_INIT_STEP_PROCESS;
	if (s->master && (s->relay = fork_relay(s->master, b->slave, b->fds)) < 0)
		return CBX_INIT_STEP_PROCESS;
	s->pid = fork();
	if (s->pid == 0)
		child(b);
	if (s->pid > 0)
		errno = 0;
	return CBX_INIT_STEP_PROCESS;
}

/* The relay of a terminal that nobody uses ends by itself: its other end is closed. */
static void give_up(struct started *s)
{
	if (s->pid > 0)
		waitpid(s->pid, NULL, 0);
	s->pid = 0;
	close_fd(&s->master);
	close_fd(&s->go);
	close_fd(&s->report);
	if (s->relay > 0)
		kill(s->relay, SIGKILL);
	else
		s->relay = 0;
}

int64_t cbx_init_spawn(const struct cbx_init_header *h, char *data, const int *fds, size_t nfds,
		       enum cbx_init_step *ret_step)
{
	static struct birth b;
	struct started *s = NULL;
	struct failure f;

	for (size_t i = 0; i < CBX_INIT_STARTED && !s; i++)
		if (!all[i].pid && !all[i].relay)
			s = &all[i];
	*ret_step = CBX_INIT_STEP_PROCESS;
	if (!s)
		return -EAGAIN;
	memset(s, 0, sizeof(*s));
	b.fds = fds;
	b.nfds = nfds;
	b.slave = b.go = b.report = 0;
	if (parse(h, data, nfds, &b) < 0)
		return -EINVAL;
	f.step = begin(h, &b, s);
	f.code = errno;
	close_fd(&b.slave);
	close_fd(&b.go);
	close_fd(&b.report);
	if (f.code == 0 && !s->go) {
		f = outcome(s->report);
		close_fd(&s->report);
	}
	*ret_step = f.step;
	if (f.code)
		give_up(s);
	return f.code ? -f.code : s->pid;
}

static struct started *find(uint64_t pid)
{
	for (size_t i = 0; i < CBX_INIT_STARTED; i++)
		if (all[i].pid && (uint64_t)all[i].pid == pid)
			return &all[i];
	return NULL;
}

int64_t cbx_init_go(uint64_t pid, enum cbx_init_step *ret_step)
{
	struct started *s = find(pid);
	struct failure f = { 0 };

	*ret_step = CBX_INIT_STEP_PROCESS;
	if (!s || !s->go || write(s->go, "g", 1) != 1)
		return -ESRCH;
	close_fd(&s->go);
	f = outcome(s->report);
	close_fd(&s->report);
	*ret_step = f.step;
	if (f.code)
		give_up(s);
	return -f.code;
}

int64_t cbx_init_resize(uint64_t pid, int64_t size)
{
	struct winsize w = { .ws_row = (unsigned short)(size >> 16), .ws_col = (unsigned short)size };
	struct started *s = find(pid);

	if (!s || !s->master)
		return -ENOTTY;
	return ioctl(s->master, TIOCSWINSZ, &w) < 0 ? -errno : 0;
}

/* ---- their end ---- */

bool cbx_init_ended(pid_t pid)
{
	for (size_t i = 0; i < CBX_INIT_STARTED; i++) {
		struct started *s = &all[i];

		if (s->relay == pid) {
			s->relay = 0;
			close_fd(&s->master); /* which hangs up whoever still uses it */
			return false;
		}
		if (s->pid == pid) {
			s->pid = 0;
			close_fd(&s->go);
			close_fd(&s->report);
			return true;
		}
	}
	return false;
}
