/* thread.h - detached threads with a small stack. */
#pragma once

/* 0, or an errno. */
int thread_start(void *(*run)(void *), void *arg);
