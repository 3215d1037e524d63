'use strict';
// A session: code comes in on descriptor 3 (JSON, each with its length before it), and is evaluated in
// one global scope, as a developer console does it: V8's own REPL mode, in which const, let and class
// can be declared again and await stands at the top level. It is reached through the inspector, which
// here has no port: it is a function call. A second thread, which the code cannot block, is the
// watchdog: it interrupts what runs for too long, and the state is kept.
const inspector = require('node:inspector');
const Module = require('node:module');
const net = require('node:net');
const path = require('node:path');
const { promiseHooks } = require('node:v8');
const vm = require('node:vm');
const { Worker, isMainThread, parentPort } = require('node:worker_threads');
const { send, say, present, describe, strip } = require('./channel.cjs');

const OURS = /^\s+at Session\.post \(node:inspector|[\\/]share[\\/]node[\\/]\w+\.cjs:/;
const IMPORTS_MAX = 500;

// ---- the watchdog's thread ----

function watch() {
	let timer;
	parentPort.on('message', ({ id, timeout }) => {
		clearTimeout(timer);
		if (!id) return;
		timer = setTimeout(() => {
			const session = new inspector.Session();
			session.connectToMainThread(); // only now: while it is connected, the process does not exit
			session.post('Runtime.terminateExecution', () => {
				session.disconnect();
				parentPort.postMessage(id);
			});
		}, timeout);
	});
}

// ---- import, which V8's REPL mode does not know ----

const NAME = '[\\p{ID_Start}$_][\\p{ID_Continue}$\\u200c\\u200d]*';
const IMPORT = new RegExp(
	`import\\s*(?:(?<name>${NAME})\\s*,?\\s*)?(?:\\*\\s*as\\s+(?<space>${NAME})\\s*|\\{(?<list>[^}]*)\\}\\s*)?` +
		`(?:from\\s*)?(?<from>"[^"\\n]*"|'[^'\\n]*')(?:\\s*with\\s*(?<like>\\{[^}]*\\}))?[ \\t]*;?`,
	'yu',
);
const CALL = '__imp_'; // as long as "import": columns stay what they are

function makeImport() {
	let dir, load;
	return async (name, options, wanted = []) => {
		if (dir !== process.cwd()) {
			dir = process.cwd();
			load = vm.runInThisContext('(name, options) => import(name, options)', {
				filename: path.join(dir, 'repl.js'),
				importModuleDynamically: vm.constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
			});
		}
		const found = await load(name, options);
		for (const one of wanted)
			if (!(one in found))
				throw new SyntaxError(`The requested module '${name}' does not provide an export named '${one}'`);
		return found;
	};
}

// What the parser has against the code, as the body of an async function: what, and where. Undefined
// when nothing.
function problem(code) {
	try {
		new vm.Script(`(async()=>{\n${code}\n})`, { filename: 'code' });
	} catch (error) {
		const [, line, arrow] = /^code:(\d+)\n.*\n( *)\^/.exec(error.stack) ?? [];
		return { message: error.message, at: line && offset(code, line - 2, arrow.length) };
	}
}

function dynamic({ 0: all, groups: { name, space, list, from, like } }) {
	const options = like ? `{with: ${like}}` : 'undefined';
	const parts = [];
	const wanted = [];
	if (name) parts.push(['default', name]);
	for (const item of (list ?? '').replace(/\/\*[^]*?\*\/|\/\/.*/g, '').split(',')) {
		const [what, as] = item.trim().split(/\s+as\s+/);
		if (what) parts.push([what, as ?? what]);
	}
	for (const [what] of parts) wanted.push(/^["']/.test(what) ? what : `'${what}'`);
	const call = `await ${CALL}(${from}, ${options}, [${wanted}])`;
	const names = `{${parts.map(([what, as]) => `${what}: ${as}`).join(', ')}}`;
	const lines = '\n'.repeat(all.split('\n').length - 1);
	if (!space && !parts.length) return `${call};${lines}`;
	if (!space) return `const ${names} = ${call};${lines}`;
	return `const ${space} = ${call}${parts.length ? `, ${names} = ${space}` : ''};${lines}`;
}

function offset(code, line, column) {
	let at = 0;
	for (; line > 0; line--) at = code.indexOf('\n', at) + 1;
	return at + column;
}

// Each import declaration stands where the parser stumbles over it.
function rewriteDeclarations(code) {
	for (let i = 0; i < IMPORTS_MAX; i++) {
		const found = problem(code);
		if (found?.at === undefined || !found.message.startsWith('Cannot use import statement')) break;
		IMPORT.lastIndex = found.at;
		const match = IMPORT.exec(code);
		if (!match) break;
		code = code.slice(0, found.at) + dynamic(match) + code.slice(found.at + match[0].length);
	}
	return code;
}

// An import( in a string or a comment may be misspelt without the parser minding; a real one may not.
function rewriteCalls(code) {
	const calls = [...code.matchAll(/(?<![\w$.#])import(?=\s*\()/g)].slice(0, IMPORTS_MAX);
	if (!calls.length || problem(code)) return code;
	for (const { index } of calls)
		if (problem(`${code.slice(0, index)}imp@rt${code.slice(index + 6)}`))
			code = code.slice(0, index) + CALL + code.slice(index + 6);
	return code;
}

function prepare(code, typescript) {
	if (typescript) code = strip(code);
	if (code.includes('import')) {
		require('./elsewhere.cjs')();
		code = rewriteCalls(rewriteDeclarations(code));
	}
	// {a: 1} is more likely meant as an object than as a block with a label.
	if (/^\s*\{/.test(code) && !/;\s*$/.test(code) && !problem(`(${code}\n)`)) code = `(${code}\n)`;
	return code;
}

// ---- the scope ----

function setUpGlobals() {
	const define = (name, get) =>
		Object.defineProperty(globalThis, name, {
			configurable: true,
			get,
			set: (value) => Object.defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable: true }),
		});
	let dir, require;
	const here = () => {
		if (dir !== process.cwd()) require = Module.createRequire(path.join((dir = process.cwd()), 'repl.js'));
		return require;
	};
	const module = { exports: {} };
	define('require', here);
	define('module', () => module);
	define('exports', () => module.exports);
	for (const name of Module.builtinModules)
		if (!/^_|[/:]/.test(name) && !(name in globalThis)) define(name, () => here()(name));
	Object.defineProperty(globalThis, CALL, { value: makeImport() });
}

// Both streams through the channel, in the order in which they are written to.
function captureOutput() {
	for (const [stream, type] of [[process.stdout, 'o'], [process.stderr, 'e']]) {
		stream._writev = null;
		stream._write = (chunk, encoding, done) => {
			send(type, typeof chunk === 'string' ? Buffer.from(chunk, encoding) : chunk);
			done();
		};
	}
}

// ---- running code ----

function main() {
	const { setImmediate } = globalThis; // before the code can change them
	const { then } = Promise.prototype;
	const watchdog = new Worker(__filename, { execArgv: [], argv: [], env: {} });
	const session = new inspector.Session();
	const hold = {};
	const held = new Map();
	let holdId;
	let current = 0;
	let count = 0;

	// The value that a description of the inspector's is of.
	function take(remote) {
		const { objectId, unserializableValue, type, value } = remote;
		const argument = objectId ? { objectId } : unserializableValue ? { unserializableValue } : type === 'undefined' ? {} : { value };
		session.post('Runtime.callFunctionOn', {
			objectId: holdId, functionDeclaration: 'function(value) { this.value = value }', arguments: [argument],
		});
		const taken = hold.value;
		hold.value = undefined;
		return taken;
	}

	// Code that cannot be compiled has no stack: its place is shown instead.
	function refused({ exception, lineNumber, columnNumber }, code) {
		const error = describe(take(exception), OURS);
		const line = code.split('\n')[lineNumber] ?? '';
		error.trace.unshift(`repl-${count}.js:${lineNumber + 1}`, line.slice(0, 200),
			`${line.slice(0, Math.min(columnNumber, 200)).replace(/[^\t]/g, ' ')}^`, '');
		return { status: 'error', error };
	}

	function finish(id, outcome) {
		if (id !== current) return; // the watchdog was faster
		const message = { id, cwd: process.cwd(), ...outcome() };
		current = 0;
		watchdog.postMessage({});
		session.post('Runtime.releaseObjectGroup', { objectGroup: 'run' });
		say(message);
	}

	const succeeded = (value) => ({
		status: 'ok',
		value: value === undefined ? undefined : present(value),
	});
	const failed = (error) => ({ status: 'error', error: describe(error, OURS) });

	// In REPL mode all code is asynchronous, and gives a promise of its value: the first that is made.
	// The inspector waits for it too, but crashes if it is collected as garbage meanwhile: it is held.
	function evaluate(id, code) {
		let promise;
		const stop = promiseHooks.onInit((made) => (promise ??= made));
		session.post('Runtime.evaluate', {
			expression: `${code}\n//# sourceURL=repl-${count}.js`,
			replMode: true, silent: true, objectGroup: 'run',
		}, (error, answer) => {
			held.delete(id);
			if (/terminated/.test(error?.message)) finish(id, () => ({ status: 'timeout' }));
			else if (!promise && !error) finish(id, () => refused(answer.exceptionDetails, code));
		});
		stop();
		if (!promise) return;
		held.set(id, promise);
		// Not at once: what the code has left unhandled is told first.
		then.call(promise,
			(value) => setImmediate(finish, id, () => succeeded(value['.repl_result'])),
			(reason) => setImmediate(finish, id, () => failed(reason)));
	}

	function run({ id, code, typescript, cwd, timeout }) {
		current = id;
		count++;
		say({ id, begun: true });
		watchdog.postMessage({ id, timeout });
		try {
			if (cwd) process.chdir(cwd);
			code = prepare(code, typescript);
		} catch (error) {
			return finish(id, () => failed(error));
		}
		evaluate(id, code);
	}

	session.connect();
	globalThis.__hold = hold;
	session.post('Runtime.evaluate', { expression: '__hold' }, (error, answer) => (holdId = answer.result.objectId));
	delete globalThis.__hold;
	watchdog.on('message', (id) => finish(id, () => ({ status: 'timeout' })));
	process.on('uncaughtException', (error) => say({ id: current, error: describe(error, OURS), stray: true }));
	process.argv.splice(1);
	captureOutput();
	setUpGlobals();

	let pending = Buffer.alloc(0);
	const input = new net.Socket({ fd: 3, readable: true, writable: false });
	input.on('data', (data) => {
		pending = Buffer.concat([pending, data]);
		while (pending.length >= 4 && pending.length >= 4 + pending.readUInt32LE(0)) {
			const end = 4 + pending.readUInt32LE(0);
			const request = JSON.parse(pending.toString('utf8', 4, end));
			pending = pending.subarray(end);
			setImmediate(run, request);
		}
	});
	input.on('end', () => process.exit(0)); // the server is gone
	say({ ready: true });
}

if (isMainThread) main();
else watch();
