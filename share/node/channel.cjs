'use strict';
// What a process says to the server: frames on descriptor 4, which nothing printed can reach. A frame
// is a type, the length of its data (32 bits, little endian) and the data; it goes out in one write
// of at most PIPE_BUF bytes, which the kernel keeps whole.
//   o e   a piece of standard output, of standard error
//   j J   a piece of a JSON message, and its last piece
const fs = require('node:fs');
const { inspect } = require('node:util');

const CHANNEL = 4;
const ROOM = 4096 - 5;
const TEXT_MAX = 1 << 18; // characters of a value or an error
const LINES_MAX = 1000;
const JSON_MAX = 1 << 18;

const { writeSync } = fs;
const { from, allocUnsafe } = Buffer;
const { stringify } = JSON;

function put(type, data) {
	const frame = allocUnsafe(5 + data.length);
	frame[0] = type.charCodeAt(0);
	frame.writeUInt32LE(data.length, 1);
	data.copy(frame, 5);
	try {
		writeSync(CHANNEL, frame);
	} catch {} // the server listens no more: it will end us
}

function send(type, data) {
	const part = type === 'J' ? 'j' : type;
	let at = 0;
	for (; data.length - at > ROOM; at += ROOM) put(part, data.subarray(at, at + ROOM));
	put(type, data.subarray(at));
}

const say = (message) => send('J', from(stringify(message)));

const cut = (text) => (text.length > TEXT_MAX ? `${text.slice(0, TEXT_MAX)}…` : text);

// A value as console.log() shows it; whatever the code has made of its own inspection.
function show(value) {
	try {
		return cut(inspect(value));
	} catch (error) {
		return `[cannot be shown: ${error?.message}]`;
	}
}

// Its JSON, where it is plain data and not too much.
function json(value) {
	try {
		const kind = value && typeof value === 'object' ? Object.getPrototypeOf(value) : null;
		if (kind !== null && kind !== Object.prototype && kind !== Array.prototype) return undefined;
		let room = JSON_MAX; // looked at on the way: all of it could be more than there is memory for
		const text = stringify(value, (key, part) => {
			room -= key.length + (typeof part === 'string' ? part.length : 1);
			if (room < 0) throw new RangeError();
			return part;
		});
		return text !== undefined && text.length <= JSON_MAX ? text : undefined;
	} catch {
		return undefined; // it has a circle or a bigint, or is too large
	}
}

// As the server takes it.
const present = (value) => ({ text: show(value), json: json(value) });

// The frames of a stack that are not the user's: from the one that `ours` matches, or from Node.js's
// own before it, to the end of that stack.
function trim(lines, ours) {
	const kept = [];
	for (let i = 0; i < lines.length; i++) {
		if (!/^\s+at /.test(lines[i]) || !ours.test(lines[i])) {
			kept.push(lines[i]);
			continue;
		}
		while (kept.length && /^\s+at .*\(?node:internal\//.test(kept.at(-1))) kept.pop();
		while (i + 1 < lines.length && /^\s+at /.test(lines[i + 1])) i++;
		if (/ {$/.test(lines[i]) && kept.length) kept.push(`${kept.pop()} {`);
	}
	return kept.length > LINES_MAX ? [...kept.slice(0, LINES_MAX), '…'] : kept;
}

function describe(error, ours) {
	const isError = error instanceof Error || Object.prototype.toString.call(error) === '[object Error]';
	let name = 'Uncaught';
	let message = '';
	try {
		if (isError) {
			name = String(error.name || error.constructor?.name || 'Error');
			message = String(error.message);
		}
	} catch {} // a getter of the user's
	const text = show(error);
	return {
		name: cut(name),
		message: isError ? cut(message) : text,
		trace: isError ? trim(text.split('\n'), ours) : [`Uncaught ${text}`],
	};
}

// TypeScript as JavaScript: types are blanked out, so that places in it stay what they are; only what
// must be translated (enums, namespaces) is.
function strip(code) {
	const { stripTypeScriptTypes } = require('node:module');
	if (!stripTypeScriptTypes)
		throw new Error(`TypeScript needs Node.js 22.13 or newer, and this is ${process.version}: ` +
			"run 'make deps', or install a newer one");
	try {
		return stripTypeScriptTypes(code);
	} catch (error) {
		if (error?.code !== 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX') throw error;
		return stripTypeScriptTypes(code, { mode: 'transform' });
	}
}

module.exports = { send, say, show, present, trim, describe, strip };
