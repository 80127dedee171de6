/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: many sessions are given the same packages one after the other, and to find out which these are
 * takes longer than to link them. So the last answers of resolvers are kept for as long as pages of the index are, each
 * with all that it was asked: the same question, of the same image, has the same answer. They were judged when they
 * came, and are judged anew. What names the newest is asked again, and so is what may be built, since a build runs code
 * of its packages.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/cleanup.h"
#include "base/limits.h"
#include "session/install.h"

struct answer {
	TAILQ_ENTRY(answer) entry;
	struct cbx_image_mark mark;
	char *question;
	cJSON *found;
	uint64_t since_ms;
};

struct cbx_resolved {
	TAILQ_HEAD(cbx_answers, answer) all; /* newest first */
	size_t n;
};

static void forget(struct cbx_resolved *r, struct answer *a)
{
	TAILQ_REMOVE(&r->all, a, entry);
	r->n--;
	free(a->question);
	cJSON_Delete(a->found);
	free(a);
}

void cbx_resolved_free(struct cbx_resolved *r)
{
	struct answer *a;

	while (r && (a = TAILQ_FIRST(&r->all)))
		forget(r, a);
	free(r);
}

/* What pages of the index depend on, too. */
static char *ask_for(const struct cbx_install *in, const cJSON *question)
{
	const struct cbx_policy *p = in->target->policy;
	_cleanup_buf_ struct cbx_buf text = { 0 };

	cbx_json_print(&text, question);
	for (size_t i = 0; in->kind == CBX_KIND_CONDA && i < p->nchannels; i++)
		cbx_buf_addf(&text, "\n%s", p->channels[i]);
	cbx_buf_addf(&text, "\n%s\n%s\n%s\n%d", in->target->spec.image, p->index ? p->index : "",
		     p->registry ? p->registry : "", in->kind);
	return cbx_buf_steal(&text);
}

static struct answer *find(struct cbx_resolved *r, const struct cbx_image_mark *mark, const char *question)
{
	struct answer *a, *next;

	TAILQ_FOREACH_SAFE(a, &r->all, entry, next) {
		if (cbx_now_ms() - a->since_ms > CBX_RESOLVED_FRESH_S * 1000ull)
			forget(r, a);
		else if (memcmp(&a->mark, mark, sizeof(*mark)) == 0 && strcmp(a->question, question) == 0)
			return a;
	}
	return NULL;
}

bool cbx_resolved_find(struct cbx_install *in, const cJSON *question)
{
	struct cbx_resolved *r = in->engine->resolved;
	const struct answer *a;

	if (in->newest || in->elsewhere || cbx_json_text(question, "builds"))
		return false;
	in->question = ask_for(in, question);
	a = r ? find(r, &in->target->image_mark, in->question) : NULL;
	if (a)
		in->found = cJSON_Duplicate(a->found, 1);
	return a != NULL;
}

void cbx_resolved_keep(struct cbx_install *in)
{
	struct cbx_resolved *r = in->engine->resolved;
	_cleanup_buf_ struct cbx_buf text = { 0 };
	struct answer *a;

	cbx_json_print(&text, in->found);
	if (!in->question || text.len + strlen(in->question) > CBX_RESOLVED_ANSWER_MAX)
		return;
	if (!r) {
		r = in->engine->resolved = cbx_xcalloc(1, sizeof(*r));
		TAILQ_INIT(&r->all);
	}
	if (find(r, &in->target->image_mark, in->question))
		return; /* as old as it is */
	if (r->n == CBX_RESOLVED_MAX)
		forget(r, TAILQ_LAST(&r->all, cbx_answers));
	a = cbx_xcalloc(1, sizeof(*a));
	a->mark = in->target->image_mark;
	a->question = take_ptr(&in->question);
	a->found = cJSON_Duplicate(in->found, 1);
	a->since_ms = cbx_now_ms();
	TAILQ_INSERT_HEAD(&r->all, a, entry);
	r->n++;
}
