/* import.h - a root file system out of an archive or an image.
 *
 * What is in them is hostile. Everything is unpacked by a process that has changed its root to the
 * place it unpacks to and has given up every privilege but those that files need: no name, link or
 * whiteout can reach outside. Device nodes, sockets and FIFOs are left out. */
#pragma once

struct err;

#define IMPORT_SETTINGS "image.json" /* what image.h tells of */

/* Makes to/root and to/image.json from `from`: an OCI layout or `docker save`, as a directory or an archive; else an
 * archive of a root file system. For a process of its own, as root. */
int import_tree(const char *from, const char *to, struct err *err);

/* The hidden command that is that process: "import-tree FROM TO"; says why on stdout if it fails. */
#define IMPORT_COMMAND "import-tree"
int import_main(int argc, char **argv);
