/* What a kernel sends: bytes of ZMTP, messages of Jupyter, outputs. */
#include <stdint.h>
#include <string.h>

#include "base/json.h"
#include "base/own.h"
#include "kernel/kernel_message.h"
#include "kernel/outputs.h"
#include "kernel/zmtp.h"

static const char *const types[] = { "stream", "display_data",        "execute_result",
				     "error",  "update_display_data", "clear_output" };

static void fold(struct outputs *outputs, const struct text *frames, size_t count)
{
	struct message message;
	json_t *content = kernel_message_read(frames, count, NULL, &message, NULL) < 0
				  ? NULL
				  : kernel_message_content(&message, NULL);
	if (!content)
		return;
	bool ours = kernel_message_answers(&message, "id");
	outputs_add(outputs, message.type, content);
	outputs_add(outputs, types[(strlen(message.type) + ours) % COUNT(types)], content);
	json_decref(outputs_shape(message.type, content));
	json_decref(content);
}

static void write_all(struct outputs *outputs)
{
	struct jw jw;
	auto_buf struct buf text = BUF(SIZE_MAX / 4);
	jw_init(&jw, SIZE_MAX / 4);
	jw_open(&jw, '[');
	outputs_write((void *)outputs, NULL, &jw);
	jw_close(&jw, ']');
	json_t *parsed = json_parse(jw.out.data, jw.out.len, NULL);
	if (!json_is_array(parsed))
		abort();
	json_decref(parsed);
	jw_done(&jw);
	outputs_text(outputs, "stdout", &text);
	if (text.len > outputs->text_max * 2 + 100)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* The first byte: how large the pieces are that the rest comes in. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static const char greeting[64] = "\xff\0\0\0\0\0\0\0\1\x7f\3\1NULL";
	struct zmtp zmtp;
	struct outputs outputs;
	const struct text *frames;
	if (!len)
		return 0;
	size_t piece = (size_t)data[0] * 16 + 1, room;
	zmtp_init(&zmtp);
	outputs_init(&outputs, 256);
	memcpy(zmtp_room(&zmtp, &room), greeting, sizeof greeting);
	zmtp_take(&zmtp, sizeof greeting);
	for (size_t at = 1; at < len && !zmtp.failed; at += piece) {
		size_t n = len - at < piece ? len - at : piece;
		memcpy(zmtp_room(&zmtp, &room), data + at, n);
		zmtp_take(&zmtp, n);
		for (size_t count; (count = zmtp_next(&zmtp, &frames));)
			fold(&outputs, frames, count);
	}
	write_all(&outputs);
	outputs_done(&outputs);
	zmtp_done(&zmtp);
	return 0;
}
