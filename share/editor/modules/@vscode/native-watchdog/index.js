// Ends a process of VS Code when the one that started it is gone, by the interface of the native module of this
// name, which would have to be compiled.
'use strict';
const EVERY_MS = 3000;

exports.start = pid => {
	setInterval(() => {
		try {
			process.kill(pid, 0);
		} catch {
			process.exit(87);
		}
	}, EVERY_MS).unref();
};
exports.exit = code => process.exit(code || 0);
