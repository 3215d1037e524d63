// VS Code's log files, by the interface of its native module of this name, which would have to be compiled.
'use strict';
const fs = require('fs');
const path = require('path');

const names = ['trace', 'debug', 'info', 'warning', 'error', 'critical', 'off'];
const pad = (number, width = 2) => String(number).padStart(width, '0');

function now() {
	const t = new Date();
	return `${t.getFullYear()}-${pad(t.getMonth() + 1)}-${pad(t.getDate())} ` +
		`${pad(t.getHours())}:${pad(t.getMinutes())}:${pad(t.getSeconds())}.${pad(t.getMilliseconds(), 3)}`;
}

class Logger {
	constructor(file, most, count) {
		Object.assign(this, { file, most, count, level: names.indexOf('info'), plain: false });
		this.open('a');
	}
	open(how) {
		this.fd = fs.openSync(this.file, how, 0o600);
		this.size = fs.fstatSync(this.fd).size;
	}
	// log.txt, log.1.txt and so on: the oldest goes.
	rotate() {
		const { dir, name, ext } = path.parse(this.file);
		const nth = i => i ? path.join(dir, `${name}.${i}${ext}`) : this.file;
		for (let i = this.count - 1; i > 0; i--)
			if (fs.existsSync(nth(i - 1)))
				fs.renameSync(nth(i - 1), nth(i));
		this.drop();
		this.open('w');
	}
	write(level, text) {
		if (level < this.level || this.fd === undefined)
			return;
		try {
			if (this.size >= this.most)
				this.rotate();
			this.size += fs.writeSync(this.fd, this.plain ? text : `${now()} [${names[level]}] ${text}\n`);
		} catch {
			// A full disk is no reason to end.
		}
	}
	getLevel() { return this.level; }
	setLevel(level) { this.level = level; }
	clearFormatters() { this.plain = true; }
	setPattern() { this.plain = false; } // there is one
	flush() {}
	drop() {
		if (this.fd !== undefined)
			fs.closeSync(this.fd);
		this.fd = undefined;
	}
}
['trace', 'debug', 'info', 'warn', 'error', 'critical'].forEach((name, level) => {
	Logger.prototype[name] = function (text) { this.write(level, text); };
});

async function create(name, file, most, count) {
	fs.mkdirSync(path.dirname(file), { recursive: true });
	return new Logger(file, most, count);
}

// By name, or `import` would not find them.
exports.version = 0;
exports.setLevel = () => {};
exports.setFlushOn = () => {};
exports.Logger = Logger;
exports.createRotatingLogger = create;
exports.createAsyncRotatingLogger = create;
