// The server sets the proxy through this worker: see src/browser/proxy_extension.c.
