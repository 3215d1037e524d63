/* aio completion: what a shell offers at the Tab key. The scripts ask 'aio completion words', which knows it from the
 * same tables as the commands themselves. */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "base/utf8.h"
#include "cli/api_words.h"
#include "cli/ask.h"
#include "cli/commands.h"
#include "cli/endpoint.h"
#include "cli/remote.h"
#include "cli/verbs.h"

enum { BOXES_MS = 500, ABOUT_MAX = 90, LINE_LEN = 1000, NAME_LEN = 64 };

static const char bash_script[] =
	"# bash completion for aio: 'aio completion bash' prints it\n"
	"_aio() {\n"
	"	local line\n"
	"	COMPREPLY=()\n"
	"	while IFS= read -r line; do\n"
	"		COMPREPLY+=(\"${line%%$'\\t'*}\")\n"
	"	done < <(\"${COMP_WORDS[0]}\" completion words -- \"${COMP_WORDS[@]:1:COMP_CWORD}\" 2>/dev/null)\n"
	"}\n"
	"complete -o default -F _aio aio\n";

static const char zsh_script[] =
	"#compdef aio\n"
	"# zsh completion for aio: 'aio completion zsh' prints it\n"
	"_aio() {\n"
	"	local -a found\n"
	"	local line\n"
	"	while IFS= read -r line; do\n"
	"		found+=(\"${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}\")\n"
	"	done < <(\"${words[1]}\" completion words -- \"${(@)words[2,CURRENT]}\" 2>/dev/null)\n"
	"	if (( $#found )); then _describe aio found; else _files; fi\n"
	"}\n"
	"if [ \"$funcstack[1]\" = _aio ]; then _aio \"$@\"; else compdef _aio aio; fi\n";

static const char fish_script[] = "# fish completion for aio: 'aio completion fish' prints it\n"
				  "function __aio_words\n"
				  "	set -l words (commandline -opc) \"$(commandline -ct)\"\n"
				  "	$words[1] completion words -- $words[2..-1] 2>/dev/null\n"
				  "end\n"
				  "complete -c aio -a '(__aio_words)'\n";

static const struct {
	const char *shell, *script;
} scripts[] = { { "bash", bash_script }, { "zsh", zsh_script }, { "fish", fish_script } };

/* ---- what is offered ---- */

struct completion {
	int count; /* of words, the last of which is being written */
	char **words;
	const char *now; /* that one */
};

/* A word and what it means, in short, where the word can become this one. */
static void offer(const struct completion *c, const char *word, const char *about)
{
	const char *end = strstr(about, ". ");
	size_t len = end ? (size_t)(end - about) : strlen(about);
	if (strncmp(word, c->now, strlen(c->now)) != 0)
		return;
	len = len > ABOUT_MAX ? utf8_fit(about, ABOUT_MAX) : len;
	while (len && about[len - 1] == '.')
		len--;
	printf("%s\t%.*s\n", word, (int)len, about);
}

static void offer_flag(const struct completion *c, const char *name, const char *about)
{
	char flag[NAME_LEN];
	snprintf(flag, sizeof flag, "--%s", name);
	for (char *at = flag; *at; at++)
		*at = *at == '_' ? '-' : *at;
	offer(c, flag, about);
}

static void offer_choices(const struct completion *c, const struct field *f)
{
	for (size_t i = 0; f->choices && f->choices[i]; i++)
		offer(c, f->choices[i], f->help);
}

/* Those of a host that answers at once; a name that is none of a box is not offered. */
static void offer_boxes(const struct completion *c)
{
	struct ask ask = { .remote = { .state = remote_state(), .within_ms = BOXES_MS } };
	json_t *list = remote_find(&ask.remote, &ask.err) < 0 ? NULL : ask_boxes(&ask), *box;
	size_t i;
	json_array_foreach(list, i, box) {
		const char *id = ask_text(box, "id"), *state = ask_text(box, "state");
		bool known = state && strspn(state, "abcdefghijklmnopqrstuvwxyz") == strlen(state);
		if (id && strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789-") == strlen(id))
			offer(c, id, known ? state : "");
	}
	json_decref(list);
}

/* ---- the API's verbs ---- */

/* The words that can follow: "open" after "browser tabs". */
static void offer_verbs(const struct completion *c)
{
	size_t count;
	const struct api_verb *verbs = verbs_all(&count);
	char last[VERB_NAME_MAX] = "";
	for (size_t i = 0; i < count; i++) {
		const char *at = verbs[i].name;
		int k = 0;
		for (; k + 1 < c->count; k++) {
			size_t len = strlen(c->words[k]);
			if (strncmp(at, c->words[k], len) != 0 || at[len] != ' ')
				break;
			at += len + 1;
		}
		size_t len = strcspn(at, " ");
		if (k + 1 < c->count || (strlen(last) == len && !memcmp(last, at, len)))
			continue;
		snprintf(last, sizeof last, "%.*s", (int)len, at);
		offer(c, last, at[len] ? "" : verbs[i].route->summary);
	}
}

static const struct field *flag_of(const struct api_verb *verb, const char *word)
{
	for (size_t i = 0; verb->in && i < verb->in->count; i++) {
		const struct field *f = &verb->in->fields[i];
		char flag[NAME_LEN];
		snprintf(flag, sizeof flag, "--%s", f->name);
		for (char *at = flag; *at; at++)
			*at = *at == '_' ? '-' : *at;
		if (!strcmp(flag, word))
			return f;
	}
	return NULL;
}

static bool takes_value(const struct api_verb *verb, const char *word)
{
	const struct field *f = flag_of(verb, word);
	bool own = !strcmp(word, "-o") || !strcmp(word, "--output");
	for (size_t i = 0; endpoint_names[i]; i++)
		own |= !strcmp(word, endpoint_names[i]);
	return own || (f && f->type != T_BOOL && f->type != T_TRI);
}

static void offer_flags(const struct completion *c, const struct api_verb *verb)
{
	for (size_t i = 0; verb->in && i < verb->in->count; i++)
		if (verbs_has(&verb->in->fields[i]))
			offer_flag(c, verb->in->fields[i].name, verb->in->fields[i].help);
	if (api_gives_file(verb->route))
		offer_flag(c, "output", "Where to write it");
	for (size_t i = 0; endpoint_names[i]; i++)
		offer(c, endpoint_names[i], "Which sandbox");
	offer_flag(c, "json", "Print the response as JSON");
	offer_flag(c, "plain", "Print text");
	offer_flag(c, "help", "Print help");
}

/* `from`: the first word behind the verb. */
static void offer_values(const struct completion *c, const struct api_verb *verb, int from)
{
	const char *before = c->words[c->count - 2];
	size_t argument = 0;
	if (c->count - 2 >= from && takes_value(verb, before)) {
		const struct field *f = flag_of(verb, before);
		if (!strcmp(before, "--box"))
			offer_boxes(c);
		else if (f)
			offer_choices(c, f);
		return;
	}
	for (int i = from; i + 1 < c->count; i++) {
		if (*c->words[i] != '-')
			argument++;
		else if (takes_value(verb, c->words[i]))
			i++;
	}
	if (*c->now == '-')
		offer_flags(c, verb);
	else if (argument < verb->argument_count)
		offer_choices(c, verb->arguments[argument]);
}

static void complete_group(const struct completion *c)
{
	int words = 0;
	const struct api_verb *verb = verbs_find(c->count - 1, c->words, &words);
	if (!verb || words == c->count - 1)
		offer_verbs(c);
	for (size_t i = 0; c->count == 2 && own_verbs[i].name; i++)
		if (!strcmp(own_verbs[i].group, c->words[0]))
			offer(c, own_verbs[i].name, own_verbs[i].about);
	if (verb)
		offer_values(c, verb, words);
}

/* ---- the other commands ---- */

/* The flags in the help of a command, which a process of its own prints. */
static void offer_helped(const struct completion *c)
{
	char help[] = "--help", line[LINE_LEN], flag[LINE_LEN] = "";
	char *argv[] = { c->words[0], c->count > 2 ? c->words[1] : help, help, NULL };
	int ends[2];
	if (pipe(ends) < 0)
		return;
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		dup2(ends[1], STDOUT_FILENO);
		close(ends[0]);
		close(ends[1]);
		int status = commands_run(!strcmp(argv[0], "template") && c->count > 2 ? 3 : 2,
					  strcmp(argv[0], "template") != 0
						  ? (char *[]){ argv[0], help, NULL }
						  : argv);
		fflush(stdout);
		_exit(status);
	}
	close(ends[1]);
	FILE *from = fdopen(ends[0], "r");
	while (from && fgets(line, sizeof line, from)) {
		char *text = line + strspn(line, " ");
		text[strcspn(text, "\n")] = 0;
		if (*flag)
			offer(c, flag, text);
		*flag = 0;
		if (!strncmp(line, "  --", 4)) {
			text[strcspn(text, " [")] = 0;
			snprintf(flag, sizeof flag, "%s", text);
		}
	}
	if (from)
		fclose(from);
	if (pid > 0)
		(void)waitpid(pid, NULL, 0);
}

static bool is_one_of(const char *word, const char *const *list)
{
	while (*list && strcmp(*list, word) != 0)
		list++;
	return *list;
}

static void complete_command(const struct completion *c)
{
	static const char *const of_boxes[] = { "ls",     "inspect",  "timeout", "rm",
						"exec",   "logs",     "events",  "pause",
						"resume", "snapshot", "fork",    NULL };
	static const char *const of_templates[] = { "ls", "import", "build", "rm", NULL };
	bool first = c->count == 2;
	if (*c->now == '-')
		offer_helped(c);
	else if (!strcmp(c->words[0], "completion"))
		for (size_t i = 0; first && i < COUNT(scripts); i++)
			offer(c, scripts[i].shell, "Print its script");
	else if (!strcmp(c->words[0], "template"))
		for (size_t i = 0; first && of_templates[i]; i++)
			offer(c, of_templates[i], "");
	else if (!strcmp(c->words[c->count - 2], "--box") ||
		 (is_one_of(c->words[0], of_boxes) && (first || !strcmp(c->words[0], "rm"))))
		offer_boxes(c);
}

static void complete_first(const struct completion *c)
{
	for (size_t i = 0; command_rows[i].name; i++)
		offer(c, command_rows[i].name, command_rows[i].about);
	for (size_t i = 0; verb_groups[i].name; i++)
		offer(c, verb_groups[i].name, verb_groups[i].about);
}

static bool is_group(const char *word)
{
	for (size_t i = 0; verb_groups[i].name; i++)
		if (!strcmp(verb_groups[i].name, word))
			return true;
	return false;
}

/* bash takes "--flag=value" apart. */
static void drop_equals(struct completion *c)
{
	static char none[] = "";
	int kept = 0;
	for (int i = 0; i < c->count; i++)
		if (strcmp(c->words[i], "=") != 0)
			c->words[kept++] = c->words[i];
		else if (i + 1 == c->count)
			c->words[kept++] = none;
	c->count = kept;
	c->now = c->words[kept - 1];
}

static int print_words(int argc, char **argv)
{
	struct completion c = { .count = argc, .words = argv };
	if (argc < 1)
		return 2;
	drop_equals(&c);
	if (c.count == 1)
		complete_first(&c);
	else if (!strcmp(c.words[0], "help") && c.count == 2)
		complete_first(&c);
	else if (is_group(c.words[0]))
		complete_group(&c);
	else
		complete_command(&c);
	return 0;
}

/* ---- the command ---- */

static void help(FILE *to)
{
	fputs("Usage: aio completion bash | zsh | fish\n\n"
	      "Prints what the shell needs to complete the words of aio. 'make install' has put it where shells\n"
	      "look; else, for this shell alone:\n\n"
	      "  bash: eval \"$(aio completion bash)\"\n"
	      "  zsh:  eval \"$(aio completion zsh)\"     (after compinit)\n"
	      "  fish: aio completion fish | source\n\n"
	      "Names of boxes are offered where the host can be asked.\n",
	      to);
}

int cmd_completion(int argc, char **argv)
{
	const char *word = argc > 1 ? argv[1] : "";
	for (size_t i = 0; argc == 2 && i < COUNT(scripts); i++)
		if (!strcmp(scripts[i].shell, word)) {
			fputs(scripts[i].script, stdout);
			return 0;
		}
	if (argc > 2 && !strcmp(word, "words") && !strcmp(argv[2], "--"))
		return print_words(argc - 3, argv + 3);
	bool asked = !strcmp(word, "--help") || !strcmp(word, "-h");
	if (*word && !asked)
		fprintf(stderr, "aio completion: no script for '%s'\n", word);
	help(asked ? stdout : stderr);
	return asked ? 0 : 2;
}
