/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: who wants to hear of changes is a stream: a subscriptions/listen request of the modern era, or
 * the whole of a legacy client after its handshake. What happens in the engine is only noted, as marks on the streams,
 * and told from a timer a moment later: many changes become one message, the memory for them is bounded by what was
 * asked for, and nothing is sent from inside the engine.
 *
 * Sessions that belong to another connection are nobody's business here: the lists do not show them either.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "mcp/serve.h"
#include "mcp/stream.h"
#include "mcp/task.h"

#define DELAY_US 20000 /* from the first change to the message */

struct cbx_mcp_news {
	struct cbx_mcp *mcp;
	struct cbx_engine_listener listener;
	struct event *timer;
	char default_session[CBX_NAME_MAX + 1]; /* the connection's own, when that was looked at last */
};

/* ---- telling ---- */

static void begin_params(struct cbx_buf *params, const struct cbx_mcp_stream *s)
{
	cbx_buf_addc(params, '{');
	if (s->modern)
		cbx_buf_addf(params, "\"_meta\":{\"" CBX_META "subscriptionId\":%s}", s->slot.id);
}

static void tell_list(struct cbx_mcp *mcp, const struct cbx_mcp_stream *s, const char *method)
{
	_cleanup_buf_ struct cbx_buf params = { 0 };

	begin_params(&params, s);
	cbx_buf_addc(&params, '}');
	cbx_rpc_notify(&s->slot, method, &params);
}

static void tell_uri(struct cbx_mcp *mcp, const struct cbx_mcp_stream *s, const char *uri)
{
	_cleanup_buf_ struct cbx_buf params = { 0 };
	_cleanup_json_ cJSON *text = cJSON_CreateString(uri);

	begin_params(&params, s);
	cbx_buf_adds(&params, s->modern ? ",\"uri\":" : "\"uri\":");
	cbx_json_print_clean(&params, text);
	cbx_buf_addc(&params, '}');
	cbx_rpc_notify(&s->slot, "notifications/resources/updated", &params);
}

static void tell(struct cbx_mcp *mcp, struct cbx_mcp_stream *s)
{
	unsigned due = s->due & s->wanted;

	s->due = 0;
	if (due & CBX_NEWS_TOOLS)
		tell_list(mcp, s, "notifications/tools/list_changed");
	if (due & CBX_NEWS_PROMPTS)
		tell_list(mcp, s, "notifications/prompts/list_changed");
	if (due & CBX_NEWS_RESOURCES)
		tell_list(mcp, s, "notifications/resources/list_changed");
	for (size_t i = 0; i < s->nuris; i++) {
		if (s->uris[i].due)
			tell_uri(mcp, s, s->uris[i].uri);
		s->uris[i].due = false;
	}
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_mcp_news *news = arg;
	struct cbx_mcp *mcp = news->mcp;
	struct cbx_mcp_stream *s;

	if (strcmp(news->default_session, mcp->client.default_session) != 0) {
		memcpy(news->default_session, mcp->client.default_session, sizeof(news->default_session));
		TAILQ_FOREACH(s, &mcp->streams, entry)
			if (!s->modern)
				s->due |= CBX_NEWS_RESOURCES;
	}
	TAILQ_FOREACH(s, &mcp->streams, entry)
		tell(mcp, s);
}

void cbx_mcp_news_flush(struct cbx_mcp *mcp)
{
	if (!mcp->news || !event_pending(mcp->news->timer, EV_TIMEOUT, NULL))
		return;
	event_del(mcp->news->timer);
	on_timer(-1, 0, mcp->news);
}

static void soon(struct cbx_mcp *mcp)
{
	struct timeval delay = { 0, DELAY_US };

	if (mcp->news && !event_pending(mcp->news->timer, EV_TIMEOUT, NULL))
		event_add(mcp->news->timer, &delay);
}

/* ---- taking notice ---- */

static void list_due(struct cbx_mcp *mcp, unsigned kind)
{
	struct cbx_mcp_stream *s;

	TAILQ_FOREACH(s, &mcp->streams, entry)
		s->due |= kind;
	soon(mcp);
}

/* Mark what is watched of this kind in this session. */
static void mark(struct cbx_mcp *mcp, enum cbx_uri_kind kind, uint64_t session)
{
	struct cbx_mcp_stream *s;

	TAILQ_FOREACH(s, &mcp->streams, entry)
		for (size_t i = 0; i < s->nuris; i++)
			if (s->uris[i].kind == kind && (kind == CBX_URI_LIST || s->uris[i].session == session))
				s->uris[i].due = true;
}

static void mark_files(struct cbx_mcp_stream *s, uint64_t session, const uint64_t *files, size_t n)
{
	for (size_t i = 0; i < s->nuris; i++) {
		struct cbx_mcp_watched *w = &s->uris[i];

		if (w->kind != CBX_URI_FILE || w->session != session)
			continue;
		for (size_t k = 0; k < n && !w->due; k++)
			w->due = w->file == files[k];
	}
}

/* Another connection's own: lists do not show it, so that they have not changed. */
static bool of_others(const struct cbx_mcp *mcp, const char *session_id, bool one_shot)
{
	return one_shot && strcmp(session_id, mcp->client.default_session) != 0;
}

static void on_session(void *arg, const char *session_id, bool one_shot, bool gone)
{
	struct cbx_mcp_news *news = arg;
	struct cbx_mcp *mcp = news->mcp;

	soon(mcp); /* also for one that may turn out to be this connection's own */
	mark(mcp, CBX_URI_SESSION, cbx_hash(session_id));
	if (gone)
		mark(mcp, CBX_URI_FILE, cbx_hash(session_id));
	if (of_others(mcp, session_id, one_shot))
		return;
	mark(mcp, CBX_URI_LIST, 0);
	list_due(mcp, CBX_NEWS_RESOURCES);
}

static void on_files(void *arg, const char *session_id, bool one_shot, const uint64_t *files, size_t n)
{
	struct cbx_mcp_news *news = arg;
	uint64_t session = cbx_hash(session_id);
	struct cbx_mcp_stream *s;

	TAILQ_FOREACH(s, &news->mcp->streams, entry)
		mark_files(s, session, files, n);
	soon(news->mcp);
	if (!of_others(news->mcp, session_id, one_shot))
		list_due(news->mcp, CBX_NEWS_RESOURCES);
}

/* ---- streams ---- */

static void news_start(struct cbx_mcp *mcp)
{
	struct cbx_mcp_news *news;

	if (mcp->news)
		return;
	news = cbx_xcalloc(1, sizeof(*news));
	news->mcp = mcp;
	news->timer = event_new(mcp->client.base, -1, 0, on_timer, news);
	news->listener = (struct cbx_engine_listener){ .on_session = on_session, .on_files = on_files, .arg = news };
	memcpy(news->default_session, mcp->client.default_session, sizeof(news->default_session));
	if (mcp->client.caller.engine)
		cbx_engine_listen(&mcp->client.caller, &news->listener);
	mcp->news = news;
}

/* As many more as the tenant may have: it makes as many connections and sessions as it likes. */
static size_t room_for(const struct cbx_mcp *mcp)
{
	size_t n = mcp->client.caller.engine ? cbx_engine_watched(&mcp->client.caller) : 0;

	return n < CBX_SUBSCRIPTIONS_TENANT ? CBX_SUBSCRIPTIONS_TENANT - n : 0;
}

static bool watch(struct cbx_mcp *mcp, struct cbx_mcp_stream *s, const char *uri, size_t *room)
{
	_cleanup_buf_ struct cbx_buf own = { 0 };
	struct cbx_mcp_watched *w;
	struct cbx_uri u;

	for (size_t i = 0; i < s->nuris; i++)
		if (strcmp(s->uris[i].uri, uri) == 0)
			return true;
	if (!*room || s->nuris >= CBX_SUBSCRIPTIONS_MAX || strlen(uri) > CBX_URI_MAX)
		return false;
	--*room;
	mcp->news->listener.watched++;
	s->uris = cbx_xrealloc(s->uris, (s->nuris + 1) * sizeof(*s->uris));
	w = &s->uris[s->nuris++];
	u = cbx_uri_parse(uri);
	if (u.path)
		cbx_file_uri(&own, u.session_id, u.path);
	*w = (struct cbx_mcp_watched){ .uri = cbx_xstrdup(uri),
				       .kind = u.kind,
				       .session = cbx_hash(u.session_id),
				       .file = cbx_hash(cbx_buf_str(&own)) };
	cbx_uri_release(&u);
	return true;
}

static void unwatch(struct cbx_mcp *mcp, struct cbx_mcp_stream *s, size_t i)
{
	mcp->news->listener.watched--;
	free(s->uris[i].uri);
	s->uris[i] = s->uris[--s->nuris];
}

static struct cbx_mcp_stream *stream_new(struct cbx_mcp *mcp)
{
	struct cbx_mcp_stream *s = cbx_xcalloc(1, sizeof(*s));

	s->slot.rpc = &mcp->rpc;
	news_start(mcp);
	TAILQ_INSERT_TAIL(&mcp->streams, s, entry);
	mcp->nstreams++;
	return s;
}

/* Its slot was ended. */
static void stream_free(struct cbx_mcp *mcp, struct cbx_mcp_stream *s)
{
	while (s->nuris)
		unwatch(mcp, s, s->nuris - 1);
	free(s->uris);
	for (size_t i = 0; i < ARRAY_SIZE(s->tasks); i++)
		if (s->tasks[i])
			cbx_mcp_task_unwatch(s->tasks[i]);
	cbx_mcp_tasks_forget(mcp, s);
	TAILQ_REMOVE(&mcp->streams, s, entry);
	mcp->nstreams--;
	free(s);
}

static struct cbx_mcp_stream *legacy_stream(struct cbx_mcp *mcp)
{
	struct cbx_mcp_stream *s;

	TAILQ_FOREACH(s, &mcp->streams, entry)
		if (!s->modern)
			return s;
	s = stream_new(mcp);
	s->wanted = CBX_NEWS_TOOLS | CBX_NEWS_PROMPTS | CBX_NEWS_RESOURCES;
	return s;
}

void cbx_mcp_news_legacy(struct cbx_mcp *mcp)
{
	legacy_stream(mcp);
}

bool cbx_mcp_news_subscribe(struct cbx_mcp *mcp, const char *uri)
{
	struct cbx_mcp_stream *s = legacy_stream(mcp);
	size_t room = room_for(mcp);

	return watch(mcp, s, uri, &room);
}

void cbx_mcp_news_unsubscribe(struct cbx_mcp *mcp, const char *uri)
{
	struct cbx_mcp_stream *s = legacy_stream(mcp);

	for (size_t i = 0; i < s->nuris; i++) {
		if (strcmp(s->uris[i].uri, uri) == 0) {
			unwatch(mcp, s, i);
			return;
		}
	}
}

static struct cbx_mcp_stream *find(struct cbx_mcp *mcp, const char *id)
{
	struct cbx_mcp_stream *s;

	TAILQ_FOREACH(s, &mcp->streams, entry)
		if (s->slot.id && strcmp(s->slot.id, id) == 0)
			break;
	return s;
}

bool cbx_mcp_streams_cancel(struct cbx_mcp *mcp, const char *id)
{
	struct cbx_mcp_stream *s = find(mcp, id);

	if (!s)
		return false;
	cbx_rpc_drop(&s->slot);
	stream_free(mcp, s);
	return true;
}

void cbx_mcp_end_streams(struct cbx_mcp *mcp)
{
	struct cbx_mcp_stream *s, *next;

	for (s = TAILQ_FIRST(&mcp->streams); s; s = next) {
		cJSON *result, *meta;

		next = TAILQ_NEXT(s, entry);
		if (!s->modern)
			continue;
		result = cbx_json_new_obj();
		meta = cbx_json_new_obj();
		cbx_json_set(meta, CBX_META "subscriptionId", cJSON_CreateRaw(s->slot.id));
		cbx_mcp_server_info(mcp, meta, CBX_META "serverInfo", cbx_mcp_modern_newest());
		cbx_json_set(result, "_meta", meta);
		cbx_rpc_answer(&s->slot, result);
		stream_free(mcp, s);
	}
}

void cbx_mcp_news_drop(struct cbx_mcp *mcp)
{
	struct cbx_mcp_stream *s;

	while ((s = TAILQ_FIRST(&mcp->streams))) {
		cbx_rpc_drop(&s->slot);
		stream_free(mcp, s);
	}
	if (!mcp->news)
		return;
	if (mcp->client.caller.engine)
		cbx_engine_unlisten(&mcp->client.caller, &mcp->news->listener);
	event_free(mcp->news->timer);
	free(mcp->news);
	mcp->news = NULL;
}

/* ---- subscriptions/listen ---- */

static bool supported(const cJSON *caps, const char *what, const char *how)
{
	return cJSON_IsTrue(cbx_json_member(cbx_json_member(caps, what), how));
}

/* Before any of them is looked at: whoever else is served waits for that. */
static bool too_many(const cJSON *list)
{
	return cJSON_GetArraySize(list) > CBX_SUBSCRIPTIONS_MAX;
}

/* What was asked for and is there goes into the stream and into `agreed`; NULL, or what is wrong with it. */
static const char *agree(struct cbx_mcp *mcp, struct cbx_mcp_stream *s, const cJSON *filter, const cJSON *caps,
			 cJSON *agreed)
{
	static const struct {
		const char *name, *capability;
		unsigned flag;
	} kinds[] = {
		{ "toolsListChanged", "tools", CBX_NEWS_TOOLS },
		{ "promptsListChanged", "prompts", CBX_NEWS_PROMPTS },
		{ "resourcesListChanged", "resources", CBX_NEWS_RESOURCES },
	};
	const cJSON *uris = NULL, *uri;
	size_t room = room_for(mcp);
	struct cbx_err err;

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		bool on = false;

		if (cbx_json_get_bool(filter, kinds[i].name, &on, &err) < 0)
			return "notifications: true or false is expected for each kind of list";
		if (!on || !supported(caps, kinds[i].capability, "listChanged"))
			continue;
		s->wanted |= kinds[i].flag;
		cbx_json_set_bool(agreed, kinds[i].name, true);
	}
	if (cbx_json_get_arr(filter, "resourceSubscriptions", &uris, &err) < 0)
		return "notifications.resourceSubscriptions: an array of addresses is expected";
	if (!uris || !supported(caps, "resources", "subscribe"))
		return NULL;
	if (too_many(uris))
		return "notifications.resourceSubscriptions: there are too many";
	cJSON_ArrayForEach(uri, uris) {
		if (!cJSON_IsString(uri))
			return "notifications.resourceSubscriptions: strings are expected";
		if (!watch(mcp, s, uri->valuestring, &room))
			return "notifications.resourceSubscriptions: there are too many, of this client or of all that "
			       "its tenant has, or one is too long";
	}
	cbx_json_set(agreed, "resourceSubscriptions", cJSON_Duplicate(uris, 1));
	return NULL;
}

/* Those that there are, and of those as many as fit, are agreed to. News of them follows the acknowledgement. */
static const char *agree_tasks(struct cbx_mcp *mcp, struct cbx_mcp_stream *s, const cJSON *filter, cJSON *agreed)
{
	const cJSON *ids = NULL, *id;
	struct cbx_execution *x;
	cJSON *list;
	struct cbx_err err;
	size_t n = 0;

	if (cbx_json_get_arr(filter, "taskIds", &ids, &err) < 0)
		return "notifications.taskIds: an array of task ids is expected";
	if (!ids)
		return NULL;
	if (too_many(ids))
		return "notifications.taskIds: there are too many";
	list = cbx_json_new_arr();
	cbx_json_set(agreed, "taskIds", list);
	cJSON_ArrayForEach(id, ids) {
		if (!cJSON_IsString(id))
			return "notifications.taskIds: strings are expected";
		if (n >= CBX_STREAM_TASKS_MAX || cbx_json_lists(list, id->valuestring) ||
		    !(x = cbx_mcp_task_find(mcp, id->valuestring)))
			continue;
		s->tasks[n] = cbx_execution_status(x) > CBX_RUNNING ? NULL : cbx_mcp_task_watch(mcp, s, x);
		if (!s->tasks[n] && cbx_execution_status(x) <= CBX_RUNNING)
			continue; /* too many others wait for it */
		cbx_json_push_str(list, id->valuestring);
		n++;
	}
	return NULL;
}

/* Of those that have ended already. */
static void tell_ended(struct cbx_mcp *mcp, struct cbx_mcp_stream *s, const cJSON *agreed)
{
	struct cbx_execution *x;
	const cJSON *id;

	cJSON_ArrayForEach(id, cbx_json_member(agreed, "taskIds"))
		if ((x = cbx_mcp_task_find(mcp, id->valuestring)) && cbx_execution_status(x) > CBX_RUNNING)
			(void)cbx_mcp_task_watch(mcp, s, x);
}

void cbx_mcp_listen(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot)
{
	_cleanup_json_ cJSON *caps = NULL;
	_cleanup_json_ cJSON *agreed = cbx_json_new_obj();
	_cleanup_buf_ struct cbx_buf params = { 0 };
	const cJSON *filter = NULL;
	struct cbx_mcp_stream *s;
	const char *fault;
	struct cbx_err err;

	if (cbx_json_get_obj(m->params, "notifications", &filter, &err) < 0 || !filter) {
		cbx_rpc_error(slot, CBX_RPC_INVALID_PARAMS, "Invalid params: notifications: an object is expected");
		return;
	}
	if (cbx_json_member(filter, "taskIds") && !cbx_mcp_takes_tasks(m->params)) {
		cbx_mcp_tasks_needed(m, slot);
		return;
	}
	if (slot->batch || !slot->id || find(m->mcp, slot->id) || m->mcp->nstreams >= CBX_STREAMS_MAX) {
		cbx_rpc_error(slot, CBX_RPC_INVALID_REQUEST, "Invalid Request: %s",
			      slot->batch			    ? "subscriptions/listen in a batch"
			      : m->mcp->nstreams >= CBX_STREAMS_MAX ? "too many subscriptions/listen requests are open"
								    : "a request with this id is still open");
		return;
	}
	caps = cbx_mcp_server_capabilities(m->mcp, m->rev);
	s = stream_new(m->mcp);
	fault = agree(m->mcp, s, filter, caps, agreed);
	if (!fault && m->mcp->client.caller.engine && !m->mcp->registry->methods)
		fault = agree_tasks(m->mcp, s, filter, agreed);
	if (fault) {
		stream_free(m->mcp, s);
		cbx_rpc_error(slot, CBX_RPC_INVALID_PARAMS, "Invalid params: %s", fault);
		return;
	}
	s->modern = true;
	s->slot = *slot;
	memset(slot, 0, sizeof(*slot));
	begin_params(&params, s);
	cbx_buf_adds(&params, ",\"notifications\":");
	cbx_json_print_clean(&params, agreed);
	cbx_buf_addc(&params, '}');
	if (params.len > cbx_rpc_room(&s->slot)) {
		cbx_rpc_error(&s->slot, CBX_RPC_INVALID_PARAMS,
			      "Invalid params: notifications: it is too long to be acknowledged");
		stream_free(m->mcp, s);
		return;
	}
	cbx_rpc_notify(&s->slot, "notifications/subscriptions/acknowledged", &params);
	tell_ended(m->mcp, s, agreed);
}
