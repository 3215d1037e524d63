/* Functions of the page library (share/browser), called in our own world of a frame. The library is an
 * object of functions; that object stays in the world, and is what the functions are called on. */
#include <pthread.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "browser/browser_state.h"
#include "browser/cdp_params.h"
#include "browser/share_js.h"

enum { LIBRARY_MAX = 2 << 20, WORDS = 400 };

/* ---- the library's text ---- */

/* Each part adds functions to `library`, and sees what the parts before it have declared. */
static const char *const parts[] = { "base",     "dom",      "document", "aria",    "selector",
				     "readable", "markdown", "capture",  "captcha", "find",
				     "snapshot", "elements", "marks",    "act" };

static char *read_library(const struct config *config, struct err *err)
{
	auto_buf struct buf text = BUF(LIBRARY_MAX);
	(void)buf_str(&text, "(() => { 'use strict'; const library = {};\n");
	for (size_t i = 0; i < COUNT(parts); i++)
		if (share_js_read(config, parts[i], &text, err) < 0)
			return NULL;
	(void)buf_str(&text, "return library })()");
	if (text.full) {
		err_set(err, ERR_INTERNAL, "the page library exceeds %d bytes", LIBRARY_MAX);
		return NULL;
	}
	return TAKE(text.data);
}

/* Read once: it is part of the product. */
static const char *library_text(const struct config *config, struct err *err)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static char *text;
	pthread_mutex_lock(&lock);
	if (!text)
		text = read_library(config, err);
	const char *result = text;
	pthread_mutex_unlock(&lock);
	return result;
}

/* ---- where ---- */

struct js_place {
	char frame[CDP_ID_MAX], session[CDP_ID_MAX], world[CDP_ID_MAX];
	int64_t number; /* of that world, in its process */
	char *library;  /* freed by the caller */
};

/* What is known of a frame's world now. */
static int look(struct tab *tab, const char *id, struct js_place *ret, struct err *err)
{
	int result = 0;
	*ret = (struct js_place){ 0 };
	pthread_mutex_lock(&tab->lock);
	const struct frame *frame = id ? tab_frame(tab, id) : tab_main_frame(tab);
	if (frame) {
		memcpy(ret->frame, frame->id, sizeof ret->frame);
		memcpy(ret->session, frame->session, sizeof ret->session);
		memcpy(ret->world, frame->world_id, sizeof ret->world);
		ret->number = frame->world;
		ret->library = frame->library ? xstrdup(frame->library) : NULL;
	} else {
		result = err_set(err, ERR_CONFLICT, "the frame is gone");
	}
	pthread_mutex_unlock(&tab->lock);
	return result;
}

/* The event that tells of the world comes before the answer. */
static int make_world(struct tab *tab, struct js_place *place, const struct wait *wait,
		      struct err *err)
{
	json_t *params = json_pack("{s:s, s:s}", "frameId", place->frame, "worldName", FRAME_WORLD);
	json_t *made =
		frame_call(tab, place->session, "Page.createIsolatedWorld", params, wait, err);
	if (!made)
		return -1;
	json_decref(made);
	auto_free char *frame = xstrdup(place->frame);
	free(TAKE(place->library));
	return look(tab, frame, place, err);
}

static void keep_library(struct tab *tab, const struct js_place *place)
{
	pthread_mutex_lock(&tab->lock);
	struct frame *frame = tab_frame(tab, place->frame);
	if (frame && !frame->library && !strcmp(frame->world_id, place->world))
		frame->library = xstrdup(place->library);
	pthread_mutex_unlock(&tab->lock);
}

static const char gone_words[] =
	"the document went away meanwhile: the page navigated or was reloaded";

static int gone_err(struct err *err)
{
	return err_set(err, ERR_CONFLICT, "%s", gone_words);
}

bool frame_js_gone(const struct err *err)
{
	return err->code == ERR_CONFLICT && !strcmp(err->msg, gone_words);
}

static int load_library(struct tab *tab, struct js_place *place, const struct wait *wait,
			struct err *err)
{
	const char *text = library_text(tab->browser->config, err);
	if (!text)
		return -1;
	if (!*place->world)
		return gone_err(err);
	json_t *params = json_pack("{s:s, s:s, s:s}", "expression", text, "uniqueContextId",
				   place->world, "objectGroup", FRAME_WORLD);
	json_t *made = frame_call(tab, place->session, "Runtime.evaluate", params, wait, err);
	const char *id = cdp_text(json_object_get(made, "result"), "objectId");
	int result = made ? 0 : -1;
	if (made && json_object_get(made, "exceptionDetails"))
		result = err_set(err, ERR_INTERNAL, "the page library cannot be loaded: %.*s",
				 WORDS,
				 cdp_text(json_object_get(json_object_get(made, "exceptionDetails"),
							  "exception"),
					  "description"));
	else if (made && !*id)
		result = err_set(err, ERR_INTERNAL, "the page library is not an object");
	if (result == 0) {
		place->library = xstrdup(id);
		keep_library(tab, place);
	}
	json_decref(made);
	return result;
}

static int prepare(struct tab *tab, const char *frame, struct js_place *place,
		   const struct wait *wait, struct err *err)
{
	if (look(tab, frame, place, err) < 0)
		return -1;
	if (!*place->world && make_world(tab, place, wait, err) < 0)
		return -1;
	return place->library ? 0 : load_library(tab, place, wait, err);
}

/* ---- the call ---- */

/* The browser's words where a document has gone. Before it had begun: another one can be asked. */
static bool is_stale(const struct err *err)
{
	return err->code == ERR_CONFLICT && (strstr(err->msg, "Cannot find context") ||
					     strstr(err->msg, "Could not find object") ||
					     strstr(err->msg, "uniqueContextId not found") ||
					     strstr(err->msg, "Session with given id") ||
					     strstr(err->msg, "No frame for given id") ||
					     strstr(err->msg, "No frame with given id"));
}

static bool is_interrupted(const struct err *err)
{
	return err->code == ERR_CONFLICT && (strstr(err->msg, "context was destroyed") ||
					     strstr(err->msg, "navigated or closed") ||
					     strstr(err->msg, "Promise was collected"));
}

bool frame_js_explain(struct err *err)
{
	bool gone = is_interrupted(err) || is_stale(err);
	if (gone)
		(void)gone_err(err);
	return gone;
}

static void forget(struct tab *tab, const struct js_place *place)
{
	pthread_mutex_lock(&tab->lock);
	struct frame *frame = tab_frame(tab, place->frame);
	if (frame && frame->library && place->library && !strcmp(frame->library, place->library)) {
		free(TAKE(frame->library));
		frame->world = 0;
		*frame->world_id = 0;
	}
	pthread_mutex_unlock(&tab->lock);
}

/* What the function threw: the message of an Error, or else what it is as text. */
static int thrown(const json_t *details, struct err *err)
{
	const json_t *exception = json_object_get(details, "exception");
	const char *words = cdp_text(exception, "description");
	const char *value = json_string_value(json_object_get(exception, "value"));
	words = value ? value : *words ? words : cdp_text(details, "text");
	size_t len = strcspn(words, "\n");
	if (!value && !strncmp(words, "Error: ", 7)) {
		words += 7;
		const char *stack = strstr(words, "\n    at ");
		len = stack ? (size_t)(stack - words) : strlen(words);
	}
	return err_set(err, ERR_CONFLICT, "%.*s", (int)(len < WORDS ? len : WORDS), words);
}

/* What a function is called with: args, and an element (its objectId; NULL: none). */
struct js_input {
	const char *function;
	json_t *args;
	const char *child; /* the frame whose owner it is called with, too; NULL: none */
	bool by_value;
};

static char *find_owner(struct tab *tab, const struct js_place *place, const char *child,
			const struct wait *wait, struct err *err)
{
	json_t *owner = frame_call(tab, place->session, "DOM.getFrameOwner",
				   json_pack("{s:s}", "frameId", child), wait, err);
	if (!owner)
		return NULL;
	json_t *params = json_pack("{s:I, s:I, s:s}", "backendNodeId",
				   (json_int_t)cdp_int(owner, "backendNodeId"),
				   "executionContextId", (json_int_t)place->number, "objectGroup",
				   FRAME_WORLD);
	json_t *node = frame_call(tab, place->session, "DOM.resolveNode", params, wait, err);
	const char *id = cdp_text(json_object_get(node, "object"), "objectId");
	char *result = *id ? xstrdup(id) : NULL;
	if (node && !result)
		err_set(err, ERR_CONFLICT, "the frame is gone");
	json_decref(owner);
	json_decref(node);
	return result;
}

static json_t *call(struct tab *tab, const struct js_place *place, const struct js_input *in,
		    const struct wait *wait, struct err *err)
{
	auto_free char *owner = in->child ? find_owner(tab, place, in->child, wait, err) : NULL;
	if (in->child && !owner)
		return NULL;
	json_t *params = json_pack("{s:s, s:s, s:[{s:s}, {s:O}], s:b, s:b, s:b, s:s}", "objectId",
				   place->library, "functionDeclaration",
				   "function (name, ...args) { return this[name](...args) }",
				   "arguments", "value", in->function, "value", in->args,
				   "returnByValue", in->by_value, "awaitPromise", 1, "userGesture",
				   1, "objectGroup",
				   in->by_value ? FRAME_WORLD : FRAME_WORLD "-handles");
	if (owner)
		json_array_append_new(json_object_get(params, "arguments"),
				      json_pack("{s:s}", "objectId", owner));
	json_t *answer =
		frame_call(tab, place->session, "Runtime.callFunctionOn", params, wait, err);
	const json_t *details = json_object_get(answer, "exceptionDetails");
	json_t *result = NULL;
	if (details)
		(void)thrown(details, err);
	else if (answer)
		result = json_incref(json_object_get(answer, "result"));
	if (answer && !details && !result)
		err_set(err, ERR_INTERNAL, "the browser sent an answer without a result");
	json_decref(answer);
	return result;
}

/* Until it comes, the browser lets nobody into the document that is still shown. */
static bool is_leaving(struct tab *tab)
{
	pthread_mutex_lock(&tab->lock);
	bool leaving = tab->frames && tab->frames->leaving;
	pthread_mutex_unlock(&tab->lock);
	return leaving;
}

/* The result as the protocol has it. A world that has just gone is made again, once. */
static json_t *run(struct tab *tab, const char *frame, struct js_input in, char *ret_session,
		   const struct wait *wait, struct err *err)
{
	struct err own = { 0 };
	json_t *result = NULL;
	err = err ? err : &own;
	in.args = in.args ? in.args : json_null();
	for (int attempt = 0; attempt < 2 && !result; attempt++) {
		struct js_place place;
		bool ready = prepare(tab, frame, &place, wait, err) == 0;
		if (ready)
			result = call(tab, &place, &in, wait, err);
		bool again = !result && is_stale(err);
		if (again)
			forget(tab, &place);
		if (result && ret_session)
			memcpy(ret_session, place.session, sizeof place.session);
		free(place.library);
		if (!result && !again)
			break;
	}
	if (!result)
		frame_js_explain(err);
	if (!result && err->code == ERR_SLOW)
		err_set(err, ERR_SLOW, "%s",
			is_leaving(tab)
				? "the page waits for the server of the document that it is "
				  "to show next, which does not answer: try again later, or "
				  "navigate elsewhere"
				: "the page did not answer in time: a script of it may be busy");
	json_decref(in.args);
	return result;
}

static json_t *value_of(json_t *result)
{
	json_t *value = json_incref(json_object_get(result, "value"));
	if (result && !value)
		value = json_null();
	json_decref(result);
	return value;
}

json_t *frame_js(struct tab *tab, const char *frame, const char *function, json_t *args,
		 const struct wait *wait, struct err *err)
{
	const struct js_input in = { function, args, NULL, true };
	return value_of(run(tab, frame, in, NULL, wait, err));
}

json_t *frame_js_owner(struct tab *tab, const char *frame, const char *child, const char *function,
		       json_t *args, const struct wait *wait, struct err *err)
{
	const struct js_input in = { function, args, child, true };
	return value_of(run(tab, frame, in, NULL, wait, err));
}

char *frame_js_handle(struct tab *tab, const char *frame, const char *function, json_t *args,
		      char ret_session[CDP_ID_MAX], const struct wait *wait, struct err *err)
{
	const struct js_input in = { function, args, NULL, false };
	json_t *result = run(tab, frame, in, ret_session, wait, err);
	const char *id = cdp_text(result, "objectId");
	char *handle = result && *id ? xstrdup(id) : NULL;
	if (result && !handle)
		err_set(err, ERR_CONFLICT, "there is no such element");
	json_decref(result);
	return handle;
}
