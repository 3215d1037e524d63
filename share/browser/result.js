// What an evaluation gave, as plain data: it is awaited, called if it is a function, and copied as Playwright
// copies it. This runs in the page's own world, so nothing here can be relied upon.
async function () {
  'use strict'; // a symbol stays one as `this`
  let values = 1000000, characters = 32000000;
  const words = (text) => {
    characters -= text.length;
    if (characters < 0) throw new Error('the result is too large: more than 32000000 characters');
    return text.toWellFormed();
  };
  const is = (value, name) => {
    try {
      return value instanceof globalThis[name] || Object.prototype.toString.call(value) === `[object ${name}]`;
    } catch {
      return false;
    }
  };
  const number = (value) => (Number.isFinite(value) ? value : null);
  const whole = (value) => (Number.isSafeInteger(Number(value)) ? Number(value) : words(String(value)));
  const primitive = (value) =>
    typeof value === 'string' ? words(value) : typeof value === 'number' ? number(value)
    : typeof value === 'boolean' ? value : typeof value === 'bigint' ? whole(value) : null;
  // Those that are no plain objects, by what tells them.
  const special = (value) => {
    if (value === globalThis) return 'ref: <Window>';
    if (is(value, 'Document')) return 'ref: <Document>';
    if (is(value, 'Node')) return 'ref: <Node>';
    if (is(value, 'Error')) return words(String(value.stack ?? value));
    if (is(value, 'Date')) return Number.isNaN(value.getTime()) ? null : value.toISOString();
    if (is(value, 'URL') || is(value, 'RegExp')) return words(String(value));
    if (ArrayBuffer.isView(value) && !is(value, 'DataView')) return Array.from(value, primitive);
  };
  const read = (object, key) => {
    try {
      return object[key];
    } catch {}
  };
  const object = (value, above) => {
    const entries = Object.keys(value).map((key) => [words(key), copy(read(value, key), above)]);
    if (!entries.length && typeof read(value, 'toJSON') === 'function') return copy(value.toJSON(), above);
    return Object.fromEntries(entries);
  };
  const copy = (value, above) => {
    if (--values < 0) throw new Error('the result is too large: more than 1000000 values');
    if (typeof value !== 'object' || value === null) return primitive(value);
    if (above.includes(value)) return '[Circular]';
    if (above.length >= 60) throw new Error('the result is nested too deeply: more than 60 levels');
    const known = special(value);
    if (known !== undefined) return known;
    const here = [...above, value];
    return Array.isArray(value) ? Array.from(value, (item) => copy(item, here)) : object(value, here);
  };
  let value = await this;
  if (typeof value === 'function') value = await value();
  return copy(value, []);
}
