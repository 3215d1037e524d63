'use strict';
// Has `import` find what `require` finds: packages in the directories of NODE_PATH, where there is none above
// the importing file.
const Module = require('node:module');
const path = require('node:path');
const { pathToFileURL } = require('node:url');

function resolve(name, context, next) {
	try {
		return next(name, context);
	} catch (error) {
		if (error?.code !== 'ERR_MODULE_NOT_FOUND' || /^[./#]|^\w+:/.test(name)) throw error;
		for (const dir of (process.env.NODE_PATH ?? '').split(path.delimiter).filter(path.isAbsolute)) {
			try {
				return next(name, { ...context, parentURL: pathToFileURL(path.join(dir, 'elsewhere.mjs')).href });
			} catch {} // nor there
		}
		throw error;
	}
}

let added = false;

// Where Node.js is old, imports find no more than it finds itself.
module.exports = () => {
	if (!added) Module.registerHooks?.({ resolve });
	added = true;
};
