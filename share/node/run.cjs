'use strict';
// Runs one program: JavaScript, or with the argument "typescript" that, from descriptor 3. It is as if
// it stood in a file of the working directory, though none is made: CommonJS, or a module where it is
// written as one. An error that ends it is told to the server too.
const fs = require('node:fs');
const Module = require('node:module');
const path = require('node:path');
const vm = require('node:vm');

const channel = () => require('./channel.cjs'); // most programs never need it

const OURS = /[\\/]share[\\/]node[\\/]\w+\.cjs:/;
// What the parser says of a module that it takes for a function.
const MODULE = /Cannot use import statement|Unexpected token 'export'|Cannot use 'import\.meta'/;
const DECLARATION = /^(\s|\/\*[^]*?\*\/|\/\/.*\n)*(async\s+)?(function|class)\b/;

const typescript = process.argv[2] === 'typescript';
const main = path.join(process.cwd(), typescript ? 'main.ts' : 'main.js');

function report(error) {
	const { describe, say, trim } = channel();
	const told = describe(error, OURS);
	say({ error: told });
	try {
		const lines = error.stack.split('\n');
		const kept = trim(lines, OURS);
		// One without any frame would be printed in brackets.
		error.stack = (kept.some((line) => /^\s+at /.test(line)) ? kept : lines.filter((line) => !OURS.test(line))).join('\n');
	} catch {} // not an error, or frozen: it is shown as it is
	return told;
}

function problem(text) {
	try {
		new vm.Script(text, { filename: main });
	} catch (error) {
		return error;
	}
}

// What is no script, but would do as the body of an async function, has await at the top level, or
// names that a script has already.
function isModule(code) {
	if (!problem(Module.wrap(code))) return false;
	const wrong = problem(`(async () => {${code}\n})`);
	return !wrong || MODULE.test(wrong.message);
}

// A program that is one expression shows its value, as `node -p` does, unless it has printed something
// itself; but what it has started or listens to (a timer, a server, a promise, a stream) is no value.
function print(value) {
	const going = value && ['then', 'unref', 'on'].some((name) => typeof value[name] === 'function');
	if (value !== undefined && !going && !process.stdout.bytesWritten) console.log(value);
}

// What every script has, where nothing else gives it that.
function setUpGlobals(module) {
	const names = { module, exports: module.exports, require: Module.createRequire(main),
		__filename: main, __dirname: path.dirname(main) };
	for (const [name, value] of Object.entries(names))
		Object.defineProperty(globalThis, name, { value, writable: true, configurable: true });
}

function runExpression(code, module) {
	setUpGlobals(module);
	print(vm.runInThisContext(/^\s*\{/.test(code) ? `(${code}\n)` : code, { filename: main }));
}

function runScript(code, module) {
	// Only a whole script can import.
	if (!DECLARATION.test(code) && !/\bimport\b/.test(code) && !problem(`(${code}\n)`)) return runExpression(code, module);
	module.filename = main;
	module.paths = Module._nodeModulePaths(path.dirname(main));
	module.id = '.';
	process.mainModule = module;
	require.cache[main] = module;
	module._compile(code, main);
	module.loaded = true;
}

// A module has to come from somewhere. Where Node.js cannot be told its text, from a file.
function provide(code) {
	const { pathToFileURL } = require('node:url');
	if (Module.registerHooks) {
		const url = pathToFileURL(main).href;
		Module.registerHooks({
			resolve: (name, context, next) =>
				name === url ? { url, format: 'module', shortCircuit: true } : next(name, context),
			load: (from, context, next) =>
				from === url ? { source: code, format: 'module', shortCircuit: true } : next(from, context),
		});
		return url;
	}
	const file = path.join(path.dirname(main), `.aio-${process.pid}.mjs`);
	fs.writeFileSync(file, code, { flag: 'wx' });
	process.on('exit', () => fs.rmSync(file, { force: true }));
	return pathToFileURL(file).href;
}

function runModule(code, module) {
	let settled = false;
	setUpGlobals(module);
	process.on('exit', (status) => {
		if (settled || status) return;
		process.exitCode = 13; // as Node.js has it
		fs.writeSync(2, 'Warning: Detected unsettled top-level await\n');
	});
	import(provide(code)).then(() => (settled = true)); // otherwise nobody handles it, which ends us
}

function start() {
	process.on('uncaughtExceptionMonitor', report);
	// When nothing is left to do: to exit at once is quicker than to take everything apart first.
	process.on('beforeExit', () => {
		if (process.listenerCount('beforeExit') === 1) process.exit();
	});
	let code = fs.readFileSync(3, 'utf8');
	fs.closeSync(3);
	process.argv.splice(1, 2, main);
	try {
		if (typescript) code = channel().strip(code);
	} catch (error) {
		fs.writeSync(2, `${report(error).trace.join('\n')}\n`);
		process.exit(1);
	}
	(isModule(code) ? runModule : runScript)(code, new Module(main, null));
}

start();
