/* thread.h - a thread that nobody waits for. */
#pragma once

/* 0, or an errno. */
int thread_start(void *(*run)(void *), void *arg);
