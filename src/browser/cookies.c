#include "browser/cookies.h"

#include <string.h>

#include "base/desc.h"
#include "base/err.h"
#include "base/own.h"
#include "base/url.h"
#include "browser/browser.h"
#include "browser/cdp.h"
#include "browser/cdp_params.h"

enum { PAIR_MAX = 4096 }; /* of a name and its value: the browser takes no more */

/* ---- asking ---- */

static bool is_local(const char *host)
{
	size_t len = strlen(host);
	return !strcmp(host, "localhost") || (len > 10 && !strcmp(host + len - 10, ".localhost"));
}

static bool matches_host(const char *domain, const char *host)
{
	size_t len = strlen(host), its = strlen(domain);
	if (*domain != '.')
		return !strcasecmp(domain, host);
	return !strcasecmp(domain + 1, host) ||
	       (len > its && !strcasecmp(host + len - its, domain));
}

static bool matches_path(const char *path, const char *target)
{
	size_t len = strlen(path);
	if (strncmp(path, target, len) != 0)
		return false;
	return !len || path[len - 1] == '/' || !target[len] || strchr("/?", target[len]);
}

static bool is_for(const json_t *cookie, const struct url_parts *url)
{
	return matches_host(cdp_text(cookie, "domain"), url->host) &&
	       matches_path(cdp_text(cookie, "path"), url->target) &&
	       (!cdp_true(cookie, "secure") || url->secure || is_local(url->host));
}

static bool is_for_any(const json_t *cookie, const struct url_parts *urls, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (is_for(cookie, &urls[i]))
			return true;
	return !count;
}

static json_t *shape(const json_t *cookie)
{
	const char *same = cdp_text(cookie, "sameSite");
	return json_pack("{s:O?, s:O?, s:O?, s:O?, s:O?, s:b, s:b, s:s, s:O*}", "name",
			 json_object_get(cookie, "name"), "value", json_object_get(cookie, "value"),
			 "domain", json_object_get(cookie, "domain"), "path",
			 json_object_get(cookie, "path"), "expires",
			 json_object_get(cookie, "expires"), "httpOnly",
			 cdp_true(cookie, "httpOnly"), "secure", cdp_true(cookie, "secure"),
			 "sameSite", *same ? same : "Lax", "partitionKey",
			 json_object_get(cookie, "partitionKey"));
}

static json_t *pick(const json_t *all, const struct url_parts *urls, size_t count)
{
	json_t *picked = json_array(), *cookie;
	size_t i;
	json_array_foreach(json_object_get(all, "cookies"), i, cookie)
		if (is_for_any(cookie, urls, count))
			json_array_append_new(picked, shape(cookie));
	return picked;
}

json_t *cookies_get(struct browser *browser, const struct list *urls, const struct wait *wait,
		    struct err *err)
{
	const char *const *texts = urls->items;
	auto_free struct url_parts *parts = xcalloc(urls->count + 1, sizeof *parts);
	for (size_t i = 0; i < urls->count; i++)
		if (url_split(texts[i], &parts[i], err) < 0) {
			err_set(err, ERR_INVALID, "invalid URL '%.200s': expected http or https",
				texts[i]);
			return NULL;
		}
	json_t *all = cdp_call(browser_cdp(browser), NULL, "Storage.getCookies", NULL, wait, err);
	json_t *picked = all ? pick(all, parts, urls->count) : NULL;
	json_decref(all);
	return picked;
}

/* ---- setting ---- */

/* Several spellings of a member; NULL: absent, or null. */
static json_t *member(const json_t *cookie, const char *const *names)
{
	json_t *value = NULL;
	for (; *names && (!value || json_is_null(value)); names++)
		value = json_object_get(cookie, *names);
	return value && !json_is_null(value) ? value : NULL;
}

static int bad(size_t index, const char *what, struct err *err)
{
	return err_set(err, ERR_INVALID, "cookie %zu: %s", index, what);
}

static const char *same_site(const char *text)
{
	static const char *const rows[][2] = { { "strict", "Strict" }, { "lax", "Lax" },
					       { "none", "None" },     { "no_restriction", "None" },
					       { "unspecified", "" },  { "", "" } };
	for (size_t i = 0; i < COUNT(rows); i++)
		if (!strcasecmp(text, rows[i][0]))
			return rows[i][1];
	return NULL;
}

static int take_texts(const json_t *from, json_t *to, size_t index, struct err *err)
{
	static const char *const names[] = { "name", "value", "url", "domain", "path" };
	for (size_t i = 0; i < COUNT(names); i++) {
		json_t *value = json_object_get(from, names[i]);
		if (!value || json_is_null(value))
			continue;
		if (!json_is_string(value))
			return err_set(err, ERR_INVALID, "cookie %zu: '%s' must be a string", index,
				       names[i]);
		json_object_set(to, names[i], value);
	}
	if (!json_object_get(to, "name") || !json_object_get(to, "value"))
		return bad(index, "a name and a value are needed", err);
	if (json_string_length(json_object_get(to, "name")) +
		    json_string_length(json_object_get(to, "value")) >
	    PAIR_MAX)
		return bad(index, "its name and value have more than 4096 bytes together", err);
	return 0;
}

static int take_flags(const json_t *from, json_t *to, size_t index, struct err *err)
{
	static const char *const spellings[][4] = { { "httpOnly", "http_only", "httponly", NULL },
						    { "secure", NULL } };
	for (size_t i = 0; i < COUNT(spellings); i++) {
		json_t *value = member(from, spellings[i]);
		if (value && !json_is_boolean(value))
			return err_set(err, ERR_INVALID, "cookie %zu: '%s' must be true or false",
				       index, spellings[i][0]);
		if (value)
			json_object_set(to, spellings[i][0], value);
	}
	return 0;
}

static int take_rest(const json_t *from, json_t *to, size_t index, struct err *err)
{
	static const char *const expiry[] = { "expires", "expirationDate", "expiry", NULL };
	static const char *const same[] = { "sameSite", "same_site", NULL };
	json_t *expires = member(from, expiry), *site = member(from, same),
	       *partition = json_object_get(from, "partitionKey");
	const char *word = site ? same_site(json_is_string(site) ? json_string_value(site) : "?")
				: "";
	if (expires && !json_is_number(expires))
		return bad(index, "'expires' must be seconds since 1970, or -1", err);
	if (expires && json_number_value(expires) != -1)
		json_object_set(to, "expires", expires);
	if (!word)
		return bad(index, "'sameSite' must be Strict, Lax or None", err);
	if (*word)
		json_object_set_new(to, "sameSite", json_string(word));
	if (json_is_object(partition))
		json_object_set(to, "partitionKey", partition);
	return 0;
}

static int take_place(json_t *to, const char *url, size_t index, struct err *err)
{
	bool has_url = *cdp_text(to, "url"), has_domain = *cdp_text(to, "domain");
	if (strpbrk(cdp_text(to, "domain"), " \t\r\n/;,@"))
		return bad(index, "invalid domain", err);
	if (!has_url)
		json_object_del(to, "url");
	if (!has_domain)
		json_object_del(to, "domain");
	if (has_domain && !*cdp_text(to, "path"))
		json_object_set_new(to, "path", json_string("/"));
	if (has_url || has_domain)
		return 0;
	if (!url || strncmp(url, "http", 4) != 0)
		return bad(index, "a url or a domain is needed: the page has none of its own", err);
	json_object_set_new(to, "url", json_string(url));
	return 0;
}

static json_t *make(const json_t *from, const char *url, size_t index, struct err *err)
{
	json_t *to = json_object();
	if (!json_is_object(from))
		bad(index, "it must be an object", err);
	else if (take_texts(from, to, index, err) == 0 && take_flags(from, to, index, err) == 0 &&
		 take_rest(from, to, index, err) == 0 && take_place(to, url, index, err) == 0)
		return to;
	json_decref(to);
	return NULL;
}

/* The browser does not say which. */
static void refused(const json_t *cookies, struct err *err)
{
	size_t count = json_array_size(cookies);
	const struct err why = *err;
	if (count == 1)
		err_set(err, ERR_CONFLICT,
			"the browser refuses the cookie '%.100s': a character of its name or value, its "
			"domain, or what a prefix such as __Host- asks for is not right (%.100s)",
			cdp_text(json_array_get(cookies, 0), "name"), why.msg);
	else
		err_set(err, ERR_CONFLICT,
			"the browser refuses one of the %zu cookies, and has set none (%.100s): set them one "
			"by one to find it",
			count, why.msg);
}

int cookies_set(struct browser *browser, const json_t *cookies, const char *url,
		const struct wait *wait, struct err *err)
{
	const json_t *from;
	json_t *list = json_array(), *to;
	size_t i;
	json_array_foreach(cookies, i, from) {
		to = make(from, url, i, err);
		if (!to) {
			json_decref(list);
			return -1;
		}
		json_array_append_new(list, to);
	}
	int result = cdp_ask(browser_cdp(browser), NULL, "Storage.setCookies",
			     json_pack("{s:O}", "cookies", list), wait, err);
	if (result < 0 && err->code == ERR_CONFLICT)
		refused(list, err);
	json_decref(list);
	return result;
}

int cookies_clear(struct browser *browser, const struct wait *wait, struct err *err)
{
	return cdp_ask(browser_cdp(browser), NULL, "Storage.clearCookies", NULL, wait, err);
}
