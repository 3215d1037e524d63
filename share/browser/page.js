// The page library.
(() => ({ ping: (args) => args }))();
