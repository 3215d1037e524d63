/* picture_stream.h - pictures with their times, as one stream for ffmpeg: Matroska with Motion JPEG. */
#pragma once
#include <stddef.h>
#include <stdint.h>

struct buf;

/* What it begins with. The pictures may have other sizes; fps is how long the last one is shown. */
int picture_stream_begin(struct buf *to, int width, int height, int64_t fps);

/* What stands before the bytes of a picture that is shown from ms on. len: at most 256 MiB. */
int picture_stream_next(struct buf *to, int64_t ms, size_t len);
