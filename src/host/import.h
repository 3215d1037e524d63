/* import.h - a root file system out of an archive or an image.
 *
 * What is in them is hostile. All of it is read by one process (confine.h) that has nothing but the
 * place it unpacks to; another one waits for it, and hands it the files of an image that is a
 * directory. */
#pragma once

/* The hidden command that makes both, "import-tree TO BYTES", as root: TO/root from its descriptor 3,
 * which is an OCI layout or what `docker save` makes, as a directory or an archive; else an archive of
 * a root file system. All that is unpacked may have so many bytes. Whatever is there still has
 * descriptor 4 open. It prints what image.h tells of, as JSON; if it fails, an error's code and text. */
#define IMPORT_COMMAND "import-tree"
enum { IMPORT_SOURCE = 3, IMPORT_ALIVE = 4 };
int import_main(int argc, char **argv);
