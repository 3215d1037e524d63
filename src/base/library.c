#include "base/library.h"

#include <dlfcn.h>
#include <string.h>

#include "base/err.h"

static int load(struct library *library, struct err *err)
{
	void *handle = dlopen(library->file, RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		return err_set(err, ERR_UNAVAILABLE, "%s is missing: install the package %s",
			       library->file, library->package);
	for (size_t i = 0; i < library->count; i++) {
		void *symbol = dlsym(handle, library->symbols[i].name);
		if (!symbol) {
			dlclose(handle);
			return err_set(err, ERR_UNAVAILABLE, "%s has no %s", library->file,
				       library->symbols[i].name);
		}
		memcpy(library->symbols[i].to, &symbol, sizeof symbol);
	}
	return 0;
}

int library_load(struct library *library, struct err *err)
{
	pthread_mutex_lock(&library->lock);
	library->loaded = library->loaded || load(library, err) == 0;
	int result = library->loaded ? 0 : -1;
	pthread_mutex_unlock(&library->lock);
	return result;
}
