'use strict';
// Runs one program: JavaScript, or with the argument "typescript" that, from descriptor 3. It is as if
// it stood in a file of the working directory, though none is made: CommonJS, or a module where it is
// written as one. An error that ends it is reported to the server too, and with the argument "value" the
// value of its last expression.
const fs = require('node:fs');
const Module = require('node:module');
const path = require('node:path');
const vm = require('node:vm');

const channel = () => require('./channel.cjs'); // most programs never need it
const { process } = globalThis; // a program may have something else of that name

const OURS = /[\\/]share[\\/]node[\\/]\w+\.cjs:/;
// What the parser says of a module that it takes for a function.
const MODULE = /Cannot use import statement|Unexpected token 'export'|Cannot use 'import\.meta'/;
const DECLARATION = /^(\s|\/\*[^]*?\*\/|\/\/.*\n)*(async\s+)?(function|class)\b/;

// The last line of a program whose value is not wanted: it prints.
const PRINTS = /(^|[;}\s])(console|process)\.[^\n;]*;?\s*$/;

const SHOW = '__aio_value';
const TRIES = 40; // of places where the last expression may begin
let moved = null; // where the last expression was pushed aside: {line, column, by}

const asked = (process.argv[2] ?? '').split(',');
const typescript = asked.includes('typescript');
const main = path.join(process.cwd(), typescript ? 'main.ts' : 'main.js');

// A line of a trace, with places as they are in what the caller sent.
function putBack(text) {
	if (!moved) return text;
	const places = new RegExp(`(\\bmain\\.[jt]s:${moved.line}:)(\\d+)`, 'g');
	return text.replace(places, (all, place, column) => (column > moved.column ? place + (column - moved.by) : all));
}

function report(error) {
	const { describe, say, trim } = channel();
	const told = describe(error, OURS);
	told.trace = told.trace.map(putBack);
	say({ error: told });
	try {
		const lines = error.stack.split('\n').map(putBack);
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
	if (isGoing(value)) return;
	if (asked.includes('value')) channel().say({ value: channel().present(value) });
	else if (!process.stdout.bytesWritten) console.log(value);
}

function isGoing(value) {
	try {
		return value === undefined || ['then', 'unref', 'on'].some((name) => typeof value?.[name] === 'function');
	} catch {
		return true; // a getter or a proxy of the program's has thrown: no reason for it to fail
	}
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

// Where a call may be opened without moving what is between it and the expression that begins at the end of
// the text: behind what is before that, in front of a comment. Last, where the expression begins.
function* openings(text) {
	const end = text.trimEnd().length;
	if (text.slice(end).includes('\n')) {
		yield end;
		for (let at = end; (at = text.lastIndexOf('//', at - 1)) > 0 && !text.slice(at, end).includes('\n');) yield at;
	}
	yield text.length;
}

// A program has no value: its last expression is handed to a function, if it stands alone behind a line or a
// semicolon and could not be the rest of what is before it. A comment may only look like one.
function withValue(code, works) {
	const imports = /^\s*import\b[^\n;]*(;|$)|^\s*export (default )?(?=[a-z])/gm;
	const starts = /(?<=\n)[ \t]*(?=[\w$'"!~])|(?<=^|;)\s*(?=[\w$'"`!~([])/g;
	if (PRINTS.test(code)) return code;
	for (const { index, 0: space } of [...code.matchAll(starts)].reverse().slice(0, TRIES)) {
		const from = index + space.length;
		const head = code.slice(0, from), last = code.slice(from);
		const tail = [/;?\s*$/, /;\s*\/\/[^\n]*\s*$/].map((end) => last.replace(end, '')).find((text) => works(`return (${text}\n)`));
		if (!tail || DECLARATION.test(tail) || !works(head.replace(imports, ''))) continue;
		for (const at of openings(head)) {
			const shown = `${head.slice(0, at)};${SHOW}((${head.slice(at)}${tail}\n))`;
			if (!works(shown.replace(imports, ''))) continue;
			const line = head.split('\n').length;
			if (at === from) moved = { line, column: from - head.lastIndexOf('\n') - 1, by: SHOW.length + 3 };
			return shown;
		}
	}
	return code;
}

function showValue(code, works) {
	if (!asked.includes('value')) return code;
	Object.defineProperty(globalThis, SHOW, { value: print });
	return withValue(code, works);
}

function setUpMain(module) {
	module.filename = main;
	module.paths = Module._nodeModulePaths(path.dirname(main));
	module.id = '.';
	process.mainModule = module;
	require.cache[main] = module;
}

function runScript(code, module) {
	// Only a whole script can import.
	const whole = !/\bimport\b/.test(code);
	if (!DECLARATION.test(code) && whole && !problem(`(${code}\n)`)) return runExpression(code, module);
	setUpMain(module);
	module._compile(showValue(code, (text) => !problem(Module.wrap(text))), main);
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
	code = showValue(code, (text) => !problem(`(async () => {${text}\n})`));
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
	if (/\bimport\b/.test(code)) require('./elsewhere.cjs')();
	try {
		if (typescript) code = channel().strip(code);
	} catch (error) {
		fs.writeSync(2, `${report(error).trace.join('\n')}\n`);
		process.exit(1);
	}
	(isModule(code) ? runModule : runScript)(code, new Module(main, null));
}

start();
