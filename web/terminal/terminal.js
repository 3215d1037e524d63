// The terminal page: xterm.js on the WebSocket /v1/shell/ws.
'use strict';
(() => {
  const $ = (id) => document.getElementById(id);
  const root = document.documentElement;
  const given = new URLSearchParams(location.search);
  let term = null;

  function remember(name, value) {
    try {
      localStorage.setItem(name, value);
    } catch { /* lasts until the page closes */ }
  }
  function remembered(name) {
    try {
      return localStorage.getItem(name);
    } catch {
      return null;
    }
  }

  // Changes one parameter of the page's address, without a step in the history.
  function address(name, value) {
    const url = new URL(location.href);
    if (value === null) url.searchParams.delete(name);
    else url.searchParams.set(name, value);
    history.replaceState(history.state, '', url);
  }

  // --- credentials of the page's URL -----------------------------------------------------------
  // Opened as ?api_key=… or ?ticket=…, the page hands the same credential to its own server only.
  function withCredential(path) {
    const url = new URL(path, location.href);
    for (const k of ['ticket', 'api_key']) if (given.get(k) && url.origin === location.origin) url.searchParams.set(k, given.get(k));
    return url;
  }
  function followLink(event) {
    const a = event.target.closest && event.target.closest('a[href]');
    if (a && a.origin === location.origin) a.href = withCredential(a.href);
  }
  document.addEventListener('click', followLink, true);
  document.addEventListener('auxclick', followLink, true);

  // --- notes -----------------------------------------------------------------------------------
  // One quiet line above the terminal's lower edge: what the state of the connection has to say, or
  // something that passes.
  let standing = null;
  let passing = null;
  let passed = 0;
  function drawNote() {
    const what = standing || passing;
    $('note').hidden = !what;
    if (!what) return;
    const [text, button] = $('note').children;
    if (text.textContent !== what.text) text.textContent = what.text;
    button.hidden = !what.button;
    button.textContent = what.button || '';
  }
  function note(text) {
    passing = { text };
    drawNote();
    clearTimeout(passed);
    passed = setTimeout(() => {
      passing = null;
      drawNote();
    }, 2000 + 40 * text.length);
  }

  // --- colour scheme ---------------------------------------------------------------------------
  const THEMES = ['system', 'light', 'dark'];
  const ICONS = {
    system: 'M2.5 3h11v7.5h-11zM6 13.5h4M8 10.5v3',
    light: 'M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6ZM8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1 1M12 12l1 1M3 13l1-1M12 4l1-1',
    dark: 'M13.5 9.5A6 6 0 0 1 6.5 2.5 6 6 0 1 0 13.5 9.5Z',
  };
  const COLOURS = {
    light: {
      background: '#ffffff', foreground: '#181b22', cursor: '#4f46e5', cursorAccent: '#ffffff', selectionBackground: '#4f46e538', selectionInactiveBackground: '#5b647230',
      black: '#181b22', red: '#c8332b', green: '#12805c', yellow: '#a15c07', blue: '#1d63c9', magenta: '#7c3aed', cyan: '#0e7490', white: '#5b6472',
      brightBlack: '#7a8392', brightRed: '#e0453c', brightGreen: '#0f9a6c', brightYellow: '#b9770e', brightBlue: '#2f7bea', brightMagenta: '#9155f5', brightCyan: '#0b8aa8', brightWhite: '#3a414d',
      scrollbarSliderBackground: '#181b2222', scrollbarSliderHoverBackground: '#181b2240', scrollbarSliderActiveBackground: '#181b2258', overviewRulerBorder: '#ffffff00',
    },
    dark: {
      background: '#0f1115', foreground: '#e8eaee', cursor: '#a5a8ff', cursorAccent: '#0f1115', selectionBackground: '#a5a8ff45', selectionInactiveBackground: '#9aa3b238',
      black: '#292e37', red: '#ff8a80', green: '#4fd1a1', yellow: '#f0b35a', blue: '#79b0ff', magenta: '#c4a5ff', cyan: '#56c8dc', white: '#d5d9e0',
      brightBlack: '#7a8392', brightRed: '#ffa8a0', brightGreen: '#7fe3be', brightYellow: '#ffcf8a', brightBlue: '#a3caff', brightMagenta: '#d9c4ff', brightCyan: '#86dceb', brightWhite: '#ffffff',
      scrollbarSliderBackground: '#e8eaee1f', scrollbarSliderHoverBackground: '#e8eaee3a', scrollbarSliderActiveBackground: '#e8eaee52', overviewRulerBorder: '#0f111500',
    },
  };
  const MATCHES = {
    light: { matchBackground: '#fde7b0', matchOverviewRuler: '#d08a13', activeMatchBackground: '#f7b944', activeMatchColorOverviewRuler: '#a15c07' },
    dark: { matchBackground: '#5a4520', matchOverviewRuler: '#f0b35a', activeMatchBackground: '#a8731c', activeMatchColorOverviewRuler: '#ffcf8a' },
  };
  const systemDark = matchMedia('(prefers-color-scheme: dark)');
  const pick = (...names) => names.find((t) => THEMES.includes(t));
  let theme = pick(given.get('theme'), remembered('aiobox-theme'), 'system');
  const shade = () => (theme === 'dark' || (theme === 'system' && systemDark.matches) ? 'dark' : 'light');

  // The match found last is the selection, in a terminal that has not got the focus.
  function colours() {
    const found = !$('find').hidden && { selectionInactiveBackground: MATCHES[shade()].activeMatchBackground };
    return { ...COLOURS[shade()], ...found };
  }
  function paint() {
    root.style.colorScheme = theme === 'system' ? '' : theme;
    $('theme').innerHTML = `<svg viewBox="0 0 16 16" aria-hidden="true"><path d="${ICONS[theme]}"/></svg>`;
    $('theme').title = `Colour scheme: ${theme}`;
    $('theme').setAttribute('aria-label', `Colour scheme: ${theme}`);
    if (term) term.options.theme = colours();
  }
  $('theme').addEventListener('click', () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    remember('aiobox-theme', theme);
    address('theme', null);
    paint();
  });
  systemDark.addEventListener('change', paint);
  window.addEventListener('storage', (event) => {
    if (event.key !== 'aiobox-theme') return;
    theme = pick(event.newValue, 'system');
    paint();
  });
  paint();

  if (!window.Terminal) {
    standing = { text: 'The terminal is not installed here: xterm.js is missing.' };
    drawNote();
    return;
  }

  // --- the terminal ----------------------------------------------------------------------------
  const SIZES = { least: 8, usual: innerWidth < 640 ? 12 : 14, most: 32 };
  let fontSize = Math.min(SIZES.most, Math.max(SIZES.least, Number(remembered('aiobox-terminal-size')) || SIZES.usual));
  const still = matchMedia('(prefers-reduced-motion: reduce)');

  const links = {
    activate: (event, uri) => window.open(uri, '_blank', 'noopener,noreferrer'),
    hover: (event, uri) => {
      $('hint').textContent = uri;
      $('hint').hidden = false;
    },
    leave: () => {
      $('hint').hidden = true;
    },
  };
  term = new window.Terminal({
    allowProposedApi: true, // the choice of Unicode widths
    cursorBlink: !still.matches,
    cursorInactiveStyle: 'outline',
    fontFamily: getComputedStyle(root).getPropertyValue('--mono') || 'monospace',
    fontSize,
    linkHandler: links,
    minimumContrastRatio: 4.5,
    overviewRuler: { width: 14 },
    scrollback: 10000,
    theme: colours(),
  });
  const fitter = new window.FitAddon.FitAddon();
  const finder = new window.SearchAddon.SearchAddon();
  term.loadAddon(fitter);
  term.loadAddon(finder);
  term.loadAddon(new window.Unicode11Addon.Unicode11Addon());
  term.loadAddon(new window.WebLinksAddon.WebLinksAddon(links.activate, links));
  term.unicode.activeVersion = '11';
  still.addEventListener('change', () => {
    term.options.cursorBlink = !still.matches;
  });

  term.onTitleChange((text) => {
    const title = text.trim().slice(0, 200);
    $('title').textContent = title;
    document.title = title ? `Web Terminal – ${title}` : 'Web Terminal';
  });
  term.onBell(() => {
    if (restoring) return;
    $('terminal').classList.remove('bell');
    void $('terminal').offsetWidth; // so that the animation starts anew
    $('terminal').classList.add('bell');
  });
  $('terminal').addEventListener('animationend', () => $('terminal').classList.remove('bell'));

  // --- size ------------------------------------------------------------------------------------
  // A session has one size, that of the window last used. In the others it may be foreign: then
  // the text shrinks until all of it is visible.
  let foreign = null; // {cols, rows}
  let told = ''; // the size that the server has from us
  let sizing = 0;

  function fit() {
    if (!term.element || restoring || document.hidden) return;
    drawStatus();
    if (foreign) return fitForeign();
    term.options.fontSize = fontSize;
    const room = fitter.proposeDimensions();
    if (!room || !room.cols || !room.rows) return;
    term.resize(room.cols, room.rows);
    tellSize();
  }
  function fitForeign() {
    const { cols, rows } = foreign;
    for (let size = fontSize; ; size -= 1) {
      term.options.fontSize = size;
      const room = fitter.proposeDimensions();
      if (!room || size <= 5 || (room.cols >= cols && room.rows >= rows)) break;
    }
    term.resize(cols, rows);
  }
  function tellSize() {
    const size = `${term.cols}x${term.rows}`;
    if (size !== told && send({ type: 'resize', data: { cols: term.cols, rows: term.rows } })) told = size;
  }
  function fitSoon() {
    clearTimeout(sizing);
    sizing = setTimeout(fit, 60);
  }
  function takeSize() {
    if (!foreign) return;
    foreign = null;
    fit();
  }
  function setFontSize(size) {
    fontSize = Math.min(SIZES.most, Math.max(SIZES.least, size));
    remember('aiobox-terminal-size', fontSize);
    foreign = null;
    fit();
    note(`Text size ${fontSize}`);
  }
  for (const use of ['keydown', 'pointerdown', 'paste']) $('terminal').addEventListener(use, takeSize, true);
  window.addEventListener('focus', takeSize);

  // --- connection ------------------------------------------------------------------------------
  const STATES = {
    connecting: { word: 'Connecting' },
    connected: { word: 'Connected' },
    lost: { word: 'Reconnecting', text: 'Connection lost. Trying to reconnect…', button: 'Reconnect now', act: hasten },
    offline: { word: 'Offline', text: 'You are offline. The session keeps running.', button: 'Try now', act: hasten },
    full: { word: 'Waiting', text: 'The server takes no more terminals at the moment.', button: 'Try now', act: hasten },
    refused: { word: 'Refused', text: 'The server no longer lets this page in.', button: 'Sign in', act: () => location.reload() },
    closed: { word: 'Closed', text: 'The session was closed. Press a key for a new one.', button: 'New session', act: startOver },
    ended: { word: 'Ended', text: 'The shell has ended. Press a key for a new one.', button: 'New shell', act: restart },
  };
  const RETRY = { first: 500, last: 10000 };
  let state = 'connecting';
  let socket = null;
  let session = given.get('session_id');
  let attempts = 0; // in vain, since we were last connected;
  let refusals = 0; // of these, those where the server was there and refused
  let asking = null; // whether it is there
  let retry = 0;
  let saying = 0;
  let complaint = ''; // the server's last error since we were connected
  let restoring = 0; // replays of old output that xterm.js still works on
  let heard = 0; // when the server last said anything
  let pinged = 0; // when it last sent a ping,
  let period = 0; // and how often it does

  function show(next, text) {
    state = next;
    const { word, ...what } = STATES[next];
    $('status').dataset.state = next;
    $('status').title = session ? `${word}: session ${session}` : word;
    drawStatus();
    clearTimeout(saying);
    // A short interruption passes without a word.
    saying = setTimeout(() => {
      standing = what.text ? { ...what, text: text || what.text } : null;
      drawNote();
      root.classList.toggle('away', !!standing && next !== 'ended');
    }, next === 'lost' && attempts < 2 ? 900 : 0);
  }
  function drawStatus() {
    const elsewhere = foreign && state === 'connected';
    $('status').lastElementChild.textContent = elsewhere ? 'Sized by another window' : STATES[state].word;
  }
  function act() {
    STATES[state].act();
  }
  function hasten() {
    if (!socket && !asking) connect();
  }
  $('note').lastElementChild.addEventListener('click', () => {
    act();
    term.focus();
  });

  function send(message) {
    if (!socket || socket.readyState !== WebSocket.OPEN) return false;
    socket.send(JSON.stringify(message));
    return true;
  }

  function leave() {
    clearTimeout(retry);
    const old = socket;
    socket = asking = null;
    if (old) old.close();
  }

  // A browser does not say why it got no WebSocket. So the page's own address is asked before more
  // attempts: whether the server is there, and whether it still lets us in.
  async function connect() {
    leave();
    if (attempts) {
      const question = fetch(location.href, { method: 'HEAD', cache: 'no-store', signal: AbortSignal.timeout(8000) });
      asking = question;
      const status = await question.then((answer) => answer.status, () => 0);
      if (asking !== question) return;
      asking = null;
      if (status === 401 || status === 403) return show('refused');
      if (status !== 200) return lost(0, true);
    }
    open();
  }
  function open() {
    const url = withCredential('v1/shell/ws');
    url.protocol = url.protocol.replace('http', 'ws');
    if (session) url.searchParams.set('session_id', session);
    let opened = false;
    const ws = new WebSocket(url);
    socket = ws;
    told = '';
    period = pinged = 0;
    ws.onopen = () => {
      opened = true;
      heard = Date.now();
      if (!session) tellSize(); // a session that is there keeps its size until its text is redrawn
    };
    ws.onmessage = (event) => {
      if (ws !== socket) return;
      heard = Date.now();
      let message;
      try {
        message = JSON.parse(event.data);
      } catch {
        return;
      }
      if (Object.hasOwn(messages, message.type)) messages[message.type](message);
    };
    ws.onclose = (event) => {
      if (ws === socket) lost(event.code, opened);
    };
  }

  function lost(code, opened) {
    socket = null;
    if (code === 1000) return show('closed', complaint && `${complaint} Press a key for a new session.`);
    if (code === 4404) return forget();
    if (!opened && attempts) refusals += 1;
    if (session && refusals > 1) return forget();
    if (refusals && !session) show('full');
    else if (navigator.onLine) show('lost', complaint && `${complaint} Trying again…`);
    else show('offline');
    retry = setTimeout(() => {
      if (!document.hidden) connect();
    }, Math.min(RETRY.last, RETRY.first * 2 ** attempts));
    attempts += 1;
  }

  // The session that the page was at is no more.
  function forget() {
    session = null;
    refusals = 0;
    complaint = '';
    tidy();
    note('The earlier session is gone. This is a new one.');
    connect();
  }
  function startOver() {
    term.reset();
    session = null;
    show('connecting');
    connect();
  }
  function restart() {
    if (send({ type: 'restart' })) show('connecting');
  }

  function hurry() {
    if (document.hidden) return;
    const stale = socket && period && Date.now() - heard > 3 * period;
    if (['lost', 'offline', 'full'].includes(state)) hasten();
    else if (stale) connect();
  }
  window.addEventListener('online', hurry);
  document.addEventListener('visibilitychange', () => {
    hurry();
    fitSoon();
  });
  // A connection can be dead without a word: after sleep, behind a router.
  setInterval(() => {
    if (socket && socket.readyState === WebSocket.OPEN && period && Date.now() - heard > 3 * period + 5000) {
      leave();
      lost(0, true);
    }
  }, 5000);

  // --- messages --------------------------------------------------------------------------------
  const messages = {
    session_id({ data }) {
      session = data;
      address('session_id', data);
    },
    ready: connected,
    terminal_restored: connected,
    output({ data }) {
      write(data);
      if (state === 'ended') connected(); // somebody else started a new shell
      typeSoon();
    },
    restore_output({ data }) {
      restoring += 1;
      write(`\x1bc${data}`, () => {
        restoring -= 1;
        fit();
      });
    },
    size({ data }) {
      if (data.cols === term.cols && data.rows === term.rows) return;
      foreign = { cols: data.cols, rows: data.rows };
      told = '';
      drawStatus();
      fitForeign();
    },
    exit({ data }) {
      const code = data && data.exit_code;
      tidy(() => show('ended', code ? `The shell has ended with exit code ${code}. Press a key for a new one.` : ''));
    },
    error({ data }) {
      complaint = String(data);
      note(complaint);
    },
    ping({ timestamp, data }) {
      const now = Date.now();
      if (pinged) period = Math.min(60000, Math.max(2000, now - pinged));
      pinged = now;
      send({ type: 'pong', data: { timestamp: timestamp === undefined ? data : timestamp } });
    },
  };

  function write(data, done) {
    try {
      term.write(data, done);
    } catch { // xterm.js takes no more than 50 MB at once
      note('The output came too fast. A part of it is missing here.');
      if (done) done();
    }
  }

  // Removes what a killed program leaves behind: its own screen, mouse reports, a hidden cursor.
  function tidy(done) {
    write('\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?1006l\x1b[?2004l\x1b[!p', () => {
      if (term.buffer.active.type === 'alternate') write('\x1b[?1049l');
      if (term.buffer.active.cursorX) write('\r\n');
      if (done) done();
    });
  }

  function connected() {
    attempts = refusals = 0;
    complaint = '';
    show('connected');
    if (document.hasFocus()) foreign = null;
    fitSoon();
    typeSoon();
  }

  // ?command=… is typed once, when the prompt is there. Only the bare name of a program is entered
  // too: more than that could come from anybody's link, and waits for the person at the keyboard.
  let command = (given.get('command') || '').replace(/[\x00-\x1f\x7f-\x9f]/g, ' ').trim();
  let typing = 0;
  function typeSoon() {
    if (!command || state !== 'connected') return;
    clearTimeout(typing);
    typing = setTimeout(() => {
      if (!send({ type: 'input', data: command + (/^[\w-]+$/.test(command) ? '\r' : '') })) return;
      command = '';
      address('command', null);
    }, 250);
  }

  // --- input -----------------------------------------------------------------------------------
  const INPUT_MAX = 8192;
  let ctrl = false; // the Ctrl key of the extra keys

  function input(data) {
    if (restoring) return; // answers to what programs asked long ago
    if (STATES[state].act) return act();
    if (ctrl && data.length === 1) {
      setCtrl(false);
      const code = data.toUpperCase().charCodeAt(0);
      if (code >= 63 && code < 96) data = String.fromCharCode(code === 63 ? 127 : code & 31);
      else if (data === ' ') data = '\0';
    }
    for (let at = 0; at < data.length;) {
      let end = Math.min(data.length, at + INPUT_MAX);
      if (end < data.length && /[\ud800-\udbff]/.test(data[end - 1])) end -= 1;
      send({ type: 'input', data: data.slice(at, end) });
      at = end;
    }
  }
  term.onData(input);
  term.onBinary(input);
  $('terminal').addEventListener('click', () => {
    if (state === 'ended' && !term.hasSelection()) act();
  });

  // --- clipboard -------------------------------------------------------------------------------
  function copyText(text) {
    if (navigator.clipboard) return navigator.clipboard.writeText(text);
    // Without HTTPS there is only the old way.
    const area = Object.assign(document.createElement('textarea'), { value: text, className: 'away-from-view' });
    document.body.append(area);
    area.select();
    const done = document.execCommand('copy');
    area.remove();
    term.focus();
    return done ? Promise.resolve() : Promise.reject(new Error('copy'));
  }
  function copy() {
    const text = term.getSelection();
    if (text) copyText(text).then(() => note('Copied'), () => note('The browser does not allow copying.'));
  }
  async function paste() {
    try {
      term.paste(await navigator.clipboard.readText());
    } catch {
      note('The browser does not allow pasting here.');
    }
  }
  // OSC 52: a program may fill the clipboard of the person watching it, and never read it.
  term.parser.registerOscHandler(52, (data) => {
    const [, base64] = data.split(';');
    if (restoring || !document.hasFocus() || !base64 || base64 === '?') return true;
    try {
      const text = new TextDecoder().decode(Uint8Array.from(atob(base64), (c) => c.charCodeAt(0)));
      copyText(text).then(() => note('A program copied text to the clipboard.'), () => {});
    } catch { /* not base64 */ }
    return true;
  });

  // --- find ------------------------------------------------------------------------------------
  const findOptions = () => ({ caseSensitive: $('find-case').getAttribute('aria-pressed') === 'true', decorations: MATCHES[shade()] });
  const findNext = () => finder.findNext($('find-text').value, findOptions());
  const findPrevious = () => finder.findPrevious($('find-text').value, findOptions());

  function findAgain() {
    term.clearSelection(); // so that it starts with the newest
    finder.clearDecorations(); // or a change of the options would go unnoticed
    if ($('find-text').value) {
      findPrevious();
    } else {
      $('find-count').textContent = '';
      $('find').classList.remove('none');
    }
  }
  finder.onDidChangeResults(({ resultIndex, resultCount }) => {
    if (!$('find-text').value) return;
    $('find').classList.toggle('none', !resultCount);
    $('find-count').textContent = !resultCount ? 'No match' : resultIndex < 0 ? `${resultCount}+` : `${resultIndex + 1} of ${resultCount}`;
  });
  function openFind() {
    const selected = term.getSelection();
    $('find').hidden = false;
    paint();
    if (selected && !selected.includes('\n')) $('find-text').value = selected;
    $('find-text').focus();
    $('find-text').select();
    findAgain();
  }
  function closeFind() {
    $('find').hidden = true;
    paint();
    finder.clearDecorations();
    term.focus();
  }
  $('find-open').addEventListener('click', openFind);
  $('find-close').addEventListener('click', closeFind);
  $('find-next').addEventListener('click', findNext);
  $('find-previous').addEventListener('click', findPrevious);
  $('find-case').addEventListener('click', () => {
    $('find-case').setAttribute('aria-pressed', $('find-case').getAttribute('aria-pressed') !== 'true');
    findAgain();
  });
  $('find-text').addEventListener('input', findAgain);
  $('find').addEventListener('keydown', (event) => {
    if (event.key === 'Escape') closeFind();
    else if (event.key === 'Enter' && event.target === $('find-text')) (event.shiftKey ? findPrevious : findNext)();
    else return;
    event.preventDefault();
  });

  // --- keys ------------------------------------------------------------------------------------
  const inHeader = () => document.querySelector('header').contains(document.activeElement);
  function header() {
    if (inHeader()) term.focus();
    else $('find-open').focus();
  }
  const larger = () => setFontSize(fontSize + 1);
  const smaller = () => setFontSize(fontSize - 1);
  const usual = () => setFontSize(SIZES.usual);
  const shortcuts = {
    'Ctrl+Shift+f': openFind, 'Meta+f': openFind,
    'Ctrl+Shift+c': copy, 'Ctrl+Insert': copy,
    'Ctrl+=': larger, 'Ctrl++': larger, 'Ctrl+Shift++': larger, 'Meta+=': larger, 'Meta++': larger, 'Meta+Shift++': larger,
    'Ctrl+-': smaller, 'Meta+-': smaller,
    'Ctrl+0': usual, 'Meta+0': usual,
    'F6': header, 'Ctrl+F6': header, 'Ctrl+Shift+Escape': header,
  };
  document.addEventListener('keydown', (event) => {
    const modifiers = [['Ctrl', event.ctrlKey], ['Alt', event.altKey], ['Shift', event.shiftKey], ['Meta', event.metaKey]];
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const name = [...modifiers.filter((m) => m[1]).map((m) => m[0]), key].join('+').replace('Shift+Meta', 'Meta+Shift');
    const action = Object.hasOwn(shortcuts, name) && shortcuts[name];
    const wanted = name === 'F6' && term.buffer.active.type === 'alternate' && !inHeader(); // by mc, htop, …
    if (action && !wanted) {
      event.preventDefault();
      event.stopPropagation();
      action();
    } else if (name === 'Escape' && (inHeader() || $('help').matches(':popover-open'))) {
      event.preventDefault();
      $('help').hidePopover();
      term.focus();
    }
  }, true);

  // --- touch -----------------------------------------------------------------------------------
  function setCtrl(on) {
    ctrl = on;
    document.querySelector('[data-ctrl]').setAttribute('aria-pressed', on);
  }
  function press(key) {
    const { send: text, arrow } = key.dataset;
    if (text) term.input(text);
    else if (arrow) term.input(`\x1b${term.modes.applicationCursorKeysMode ? 'O' : '['}${arrow}`);
    else if ('ctrl' in key.dataset) setCtrl(!ctrl);
    else paste();
  }
  let repeat = 0;
  function release() {
    clearInterval(repeat);
    for (const key of $('keys').children) key.classList.remove('down');
  }
  $('keys').addEventListener('pointerdown', (event) => {
    const key = event.target.closest('button');
    event.preventDefault(); // the focus, and with it the screen keyboard, stays where it is
    release();
    if (!key) return;
    key.classList.add('down');
    if (key.dataset.arrow) repeat = setTimeout(() => (repeat = setInterval(press, 60, key)), 400);
  });
  for (const end of ['pointerup', 'pointercancel', 'pointerleave']) $('keys').addEventListener(end, release);
  $('keys').addEventListener('click', (event) => {
    const key = event.target.closest('button');
    if (key) press(key);
  });
  if (!navigator.clipboard || !navigator.clipboard.readText) document.querySelector('[data-paste]').hidden = true;

  // xterm.js knows no fingers. One scrolls; in a program with a screen of its own it is a wheel.
  let finger = null; // where it was when it had last moved by a line
  $('terminal').addEventListener('touchstart', (event) => {
    finger = event.touches.length === 1 ? event.touches[0].clientY : null;
  }, { passive: true });
  $('terminal').addEventListener('touchmove', (event) => {
    if (finger === null || event.touches.length !== 1) return;
    const { clientX, clientY } = event.touches[0];
    const height = term.element.querySelector('.xterm-screen').clientHeight / term.rows;
    const moved = Math.trunc((finger - clientY) / height);
    if (!moved) return;
    finger -= moved * height;
    if (term.buffer.active.type === 'normal' && term.modes.mouseTrackingMode === 'none') return term.scrollLines(moved);
    const wheel = { deltaY: moved, deltaMode: WheelEvent.DOM_DELTA_LINE, clientX, clientY, bubbles: true, cancelable: true };
    term.element.querySelector('.xterm-screen').dispatchEvent(new WheelEvent('wheel', wheel));
  }, { passive: true });

  // Where the screen keyboard covers the page instead of making it smaller (iOS).
  const view = window.visualViewport;
  if (view) {
    view.addEventListener('resize', () => {
      const covered = view.scale === 1 && window.innerHeight - view.height > 80;
      root.style.setProperty('--height', covered ? `${view.height}px` : '');
      if (covered) window.scrollTo(0, 0);
    });
  }

  // --- start -----------------------------------------------------------------------------------
  window.terminal = term; // for tests and for the console
  function start() {
    term.open($('terminal'));
    new ResizeObserver(fitSoon).observe($('terminal'));
    fit();
    term.focus();
    connect();
  }
  if (document.readyState === 'complete') start();
  else window.addEventListener('load', start);
})();
