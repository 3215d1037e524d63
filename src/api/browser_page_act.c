#include "api/browser_page_act.h"

#include "base/arena.h"
#include "base/err.h"
#include "net/call.h"

int page_act_begin(struct call *call, double timeout, struct page_call *ret, struct err *err)
{
	return page_begin(call, (int64_t)(timeout * 1000) + ACT_GRACE_MS, ret, err);
}

static void drop(void *json)
{
	json_decref(json);
}

int page_act_reply(struct call *call, struct page_call *page, json_t *data, const struct err *cause,
		   struct err *err)
{
	if (!data)
		return page_failed(call, page, cause, err);
	arena_defer(call->arena, drop, data);
	return page_reply(call, page, &data, err);
}

int page_target(const char *selector, int64_t index, struct act_target *ret, struct err *err)
{
	bool has_selector = selector && *selector;
	*ret = (struct act_target){ has_selector ? selector : NULL, index };
	if (has_selector || index != INT_ABSENT)
		return 0;
	return err_set(err, ERR_INVALID, "neither a selector nor an index is given");
}
