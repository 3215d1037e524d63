// The desktop page: noVNC on the WebSocket /websockify.
'use strict';
(() => {
  const $ = (id) => document.getElementById(id);
  const root = document.documentElement;
  const home = new URL('../', location.href);
  const given = new URLSearchParams(location.search);
  const isYes = (name, otherwise) => (given.has(name) ? /^(true|1|yes|on|)$/i.test(given.get(name)) : otherwise);
  const MAC = /Mac|iP(hone|ad|od)/.test(navigator.platform);

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
  function address(name, value) {
    const url = new URL(location.href);
    if (value === null) url.searchParams.delete(name);
    else url.searchParams.set(name, value);
    history.replaceState(history.state, '', url);
  }

  // Opened as ?api_key=… or ?ticket=…, the page hands the same credential to its own server only.
  function withCredential(path, base = home) {
    const url = new URL(path, base);
    for (const k of ['ticket', 'api_key']) {
      if (given.get(k) && url.origin === location.origin && !url.searchParams.has(k)) url.searchParams.set(k, given.get(k));
    }
    return url;
  }
  function followLink(event) {
    const a = event.target.closest && event.target.closest('a[href]');
    if (a && a.origin === location.origin) a.href = withCredential(a.href);
  }

  // ?path=… is where the WebSocket is, with a query of its own; never on another server.
  function socketUrl() {
    let url = withCredential('websockify');
    try {
      const wish = withCredential(given.get('path') || 'websockify');
      if (wish.origin === location.origin) url = wish;
    } catch { /* not a path */ }
    url.protocol = url.protocol.replace('http', 'ws');
    return url;
  }

  let RFB = null;
  let rfb = null; // once there is a picture
  let scope = 'all'; // "view": the server passes no input on
  let viewOnly = isYes('view_only', false);

  // --- notes -----------------------------------------------------------------------------------
  let passed = 0;
  function note(text) {
    $('note').textContent = text;
    $('note').hidden = false;
    clearTimeout(passed);
    passed = setTimeout(() => ($('note').hidden = true), 2000 + 40 * text.length);
  }

  // --- colour scheme ---------------------------------------------------------------------------
  const THEMES = ['system', 'light', 'dark'];
  const ICONS = {
    system: 'M2.5 3h11v7.5h-11zM6 13.5h4M8 10.5v3',
    light: 'M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6ZM8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1 1M12 12l1 1M3 13l1-1M12 4l1-1',
    dark: 'M13.5 9.5A6 6 0 0 1 6.5 2.5 6 6 0 1 0 13.5 9.5Z',
  };
  const icon = (path) => `<svg viewBox="0 0 16 16" aria-hidden="true"><path d="${path}"/></svg>`;
  function label(button, text) {
    button.title = text;
    button.setAttribute('aria-label', text);
  }
  const pick = (all, ...names) => names.find((t) => all.includes(t));
  let theme = pick(THEMES, given.get('theme'), remembered('aiobox-theme'), 'system');
  function paint() {
    root.style.colorScheme = theme === 'system' ? '' : theme;
    $('theme').innerHTML = icon(ICONS[theme]);
    label($('theme'), `Colour scheme: ${theme}`);
    if (rfb) rfb.background = 'transparent';
  }

  // --- size ------------------------------------------------------------------------------------
  const SIZES = ['scale', 'remote', 'off'];
  const SIZE_ICONS = { scale: 'M2.5 3.5h11v9h-11zM5.500 6.500h5v3h-5z', remote: 'M2.5 3.5h11v9h-11zM5.500 6v-.1M10.500 6.500v3M5.500 6.500v3M7 8h2', off: 'M5 4v8M3.500 5 5 4M11 4v8M9.500 5 11 4M8 6.500v.1M8 10v.1' };
  const SIZE_WORDS = { scale: 'Size: the desktop is scaled to the window', remote: 'Size: the desktop follows the window', off: 'Size: one pixel is one pixel' };
  let size = pick(SIZES, given.get('resize'), remembered('aiobox-desktop-size'), 'scale');
  function applySize() {
    $('size').innerHTML = icon(SIZE_ICONS[size]);
    label($('size'), SIZE_WORDS[size]);
    if (!rfb) return;
    rfb.clipViewport = false;
    rfb.scaleViewport = size !== 'off';
    rfb.resizeSession = size === 'remote';
  }
  function drawTitle() {
    const canvas = rfb && canvasOf();
    if (!canvas || !canvas.width) return;
    const shown = Math.round((100 * canvas.getBoundingClientRect().width) / canvas.width);
    $('title').textContent = `${canvas.width} × ${canvas.height}${shown && shown !== 100 ? ` at ${shown} %` : ''}`;
  }
  const watchSize = new MutationObserver(drawTitle);

  // --- looking only ----------------------------------------------------------------------------
  function applyView() {
    const only = viewOnly || scope === 'view';
    const button = $('view');
    button.setAttribute('aria-pressed', only);
    button.disabled = scope === 'view';
    label(button, scope === 'view' ? 'You may look only: this link passes no input on' : only ? 'Looking only: nothing you do reaches the desktop' : 'Look only');
    $('clipboard-text').readOnly = only;
    for (const id of ['cad', 'escape']) $(id).disabled = only;
    if (rfb && rfb.viewOnly !== only) rfb.viewOnly = only;
    drawStatus();
  }

  // --- connection ------------------------------------------------------------------------------
  const STATES = {
    idle: { word: 'Not connected', head: 'The desktop of this sandbox', button: 'Connect', act: start },
    connecting: { word: 'Connecting', head: 'Connecting to the desktop…' },
    connected: { word: 'Connected' },
    lost: { word: 'Reconnecting', head: 'Connection lost', text: 'Trying to reconnect…', button: 'Reconnect now', act: start },
    offline: { word: 'Offline', head: 'You are offline', text: 'The desktop keeps running.', button: 'Try now', act: start },
    refused: { word: 'Refused', head: 'The server does not let this page in', text: 'Its ticket or key may have expired.', button: 'Sign in', act: () => location.reload() },
    closed: { word: 'Disconnected', head: 'Disconnected', button: 'Connect', act: start },
    missing: { word: 'Not installed', head: 'The desktop cannot be shown', text: 'noVNC is missing: run “make deps” where aiobox is installed.' },
  };
  const RETRY = { first: 500, last: 10000 };
  let state = 'idle';
  let attempts = 0; // in vain, since we were last connected
  let retry = 0;
  let drawing = 0;
  let turn = 0; // of the newest attempt: what belongs to others is of no interest

  function drawStatus() {
    const looks = state === 'connected' && (viewOnly || scope === 'view');
    $('status').dataset.state = state;
    $('status').lastElementChild.textContent = looks ? 'Looking only' : STATES[state].word;
  }
  // A short interruption passes without a word.
  function show(next, text) {
    state = next;
    drawStatus();
    clearTimeout(drawing);
    drawing = setTimeout(() => drawCurtain(STATES[next], text), next === 'connecting' || (next === 'lost' && !text && attempts < 2) ? 700 : 0);
  }
  function drawCurtain({ head, text, button }, more) {
    const [, title, line, act] = $('curtain').firstElementChild.children;
    $('curtain').hidden = !head;
    root.classList.toggle('away', !!head);
    title.textContent = head || '';
    line.textContent = more || text || '';
    act.hidden = !button;
    act.textContent = button || '';
    if (button && (document.activeElement === document.body || !document.activeElement)) act.focus({ preventScroll: true });
  }

  async function ask() {
    try {
      const answer = await fetch(withCredential('vnc/access'), { cache: 'no-store', signal: AbortSignal.timeout(8000) });
      return { status: answer.status, scope: answer.ok ? (await answer.json()).scope : 'all' };
    } catch {
      return { status: 0 };
    }
  }

  function start() {
    attempts = 0;
    connect();
  }
  // A browser does not say why it got no WebSocket: so the server is asked first what we may do.
  async function connect() {
    clearTimeout(retry);
    const mine = ++turn;
    if (state !== 'lost') show('connecting');
    const access = await ask();
    if (mine !== turn) return;
    if (access.status === 401 || access.status === 403) return show('refused');
    if (access.status !== 200) return lost(mine, '');
    scope = access.scope;
    applyView();
    const socket = new WebSocket(socketUrl());
    socket.binaryType = 'arraybuffer';
    // It comes before noVNC's own, which takes the picture away.
    socket.addEventListener('close', (event) => ended(mine, event));
    attach(mine, socket);
  }
  function attach(mine, socket) {
    const next = new RFB($('desktop'), socket, { shared: true });
    next.background = 'transparent';
    next.qualityLevel = Number(given.get('quality') || 6);
    next.compressionLevel = Number(given.get('compression') || 2);
    next.showDotCursor = isYes('show_dot', false);
    next.viewOnly = viewOnly || scope === 'view';
    next.addEventListener('connect', () => mine === turn && connected(next));
    next.addEventListener('clipboard', (event) => mine === turn && copied(event.detail.text));
    next.addEventListener('disconnect', () => {
      if (mine === turn && rfb === next) rfb = null;
    });
    next.addEventListener('securityfailure', (event) => note(`The desktop refuses: ${event.detail.reason || 'no reason given'}.`));
  }
  const canvasOf = () => $('desktop').querySelector('canvas:not(.ghost)');

  function connected(next) {
    rfb = next;
    attempts = 0;
    const canvas = canvasOf();
    for (const ghost of document.querySelectorAll('.ghost')) ghost.remove();
    canvas.tabIndex = 0; // reached by Tab, too
    canvas.setAttribute('aria-label', 'Desktop');
    watchSize.disconnect();
    watchSize.observe(canvas, { attributes: true, attributeFilter: ['width', 'height', 'style'] });
    applySize();
    applyView();
    show('connected');
    drawTitle();
    const at = document.activeElement;
    if (!at || at === document.body || at.closest('#curtain')) rfb.focus({ preventScroll: true });
    offer();
  }

  // What was seen last stays, behind what there is to say.
  function keepPicture() {
    const canvas = canvasOf();
    if (!canvas || !canvas.width) return;
    const ghost = canvas.cloneNode();
    const at = canvas.getBoundingClientRect();
    const frame = $('desktop').getBoundingClientRect();
    ghost.className = 'ghost';
    ghost.getContext('2d').drawImage(canvas, 0, 0);
    Object.assign(ghost.style, { position: 'absolute', margin: 0, left: `${at.left - frame.left}px`, top: `${at.top - frame.top}px`, width: `${at.width}px`, height: `${at.height}px` });
    ghost.removeAttribute('tabindex');
    ghost.setAttribute('aria-hidden', 'true');
    for (const before of document.querySelectorAll('.ghost')) before.remove();
    $('desktop').append(ghost);
  }

  function ended(mine, { code, reason }) {
    if (mine !== turn) return;
    keepPicture();
    watchSize.disconnect();
    const said = reason && `${reason[0].toUpperCase()}${reason.slice(1)}.`;
    if (code === 1002 || code === 1003) {
      turn += 1;
      return show('closed', said);
    }
    lost(mine, said && `${said} ${code === 1001 ? 'Reconnecting…' : 'Trying again…'}`);
  }
  function lost(mine, said) {
    if (mine !== turn) return;
    turn += 1;
    if (!isYes('reconnect', true)) return show('closed', said);
    show(navigator.onLine ? 'lost' : 'offline', said);
    retry = setTimeout(() => {
      if (!document.hidden) connect();
    }, Math.min(RETRY.last, RETRY.first * 2 ** attempts));
    attempts += 1;
  }
  function hurry() {
    if (!document.hidden && ['lost', 'offline'].includes(state)) connect();
  }

  // --- clipboard -------------------------------------------------------------------------------
  let shared = null; // the text that both sides have
  let typed = false; // here, and nothing can have been copied elsewhere since
  function copied(text) {
    typed = false;
    shared = text;
    $('clipboard-text').value = text;
    if (!navigator.clipboard || !document.hasFocus()) return;
    navigator.clipboard.writeText(text).then(() => note('Copied from the desktop'), () => {});
  }
  function give(text) {
    if (!rfb || rfb.viewOnly || !text || text === shared) return;
    shared = text;
    $('clipboard-text').value = text;
    rfb.clipboardPasteFrom(text);
  }
  // Only where the browser allows it without a question: for those who paste with the mouse.
  async function offer() {
    typed = false;
    try {
      const { state: may } = await navigator.permissions.query({ name: 'clipboard-read' });
      if (may === 'granted' && document.hasFocus() && document.activeElement !== $('clipboard-text')) give(await navigator.clipboard.readText());
    } catch { /* this browser has no such permission */ }
  }

  // The keys for pasting are kept until the browser has handed over the text, which needs no permission.
  let pasting = null;
  function isPaste(event) {
    if (event.altKey) return false;
    if (event.code === 'Insert') return event.shiftKey && !event.ctrlKey;
    return event.key.toLowerCase() === 'v' && (MAC ? event.metaKey : event.ctrlKey);
  }
  function holdPaste(event) {
    event.stopPropagation();
    clearTimeout(pasting && pasting.timer);
    pasting = { key: event.key, code: event.code, timer: setTimeout(paste, 300) };
  }
  function paste(event) {
    if (!pasting) return;
    const { key, code, timer } = pasting;
    clearTimeout(timer);
    pasting = null;
    if (event) {
      event.preventDefault();
      if (!typed) give(event.clipboardData.getData('text/plain'));
    }
    if (!rfb) return;
    const control = MAC ? 0xffe3 : 0; // where ⌘ is for pasting
    if (control) {
      window.dispatchEvent(new Event('blur'));
      rfb.sendKey(control, 'ControlLeft', true);
    }
    rfb.sendKey(code === 'Insert' ? 0xff63 : key.charCodeAt(0), code);
    if (control) rfb.sendKey(control, 'ControlLeft', false);
  }

  // --- keys ------------------------------------------------------------------------------------
  const onDesktop = () => rfb && document.activeElement === canvasOf();
  function leaveDesktop() {
    window.dispatchEvent(new Event('blur')); // noVNC lets go of the keys that are down
    document.querySelector('header nav button:enabled').focus();
  }
  function keydown(event) {
    const chord = event.ctrlKey && event.altKey && event.shiftKey && ['Control', 'Alt', 'Shift', 'Meta'].includes(event.key);
    if (chord) {
      event.preventDefault();
      event.stopPropagation();
      if (onDesktop()) leaveDesktop();
      else if (rfb) rfb.focus();
    } else if (onDesktop() && !rfb.viewOnly && isPaste(event)) {
      holdPaste(event);
    } else if (event.key === 'Escape' && !onDesktop() && rfb && !event.target.closest('[popover]')) {
      rfb.focus();
    }
  }
  function press(...keys) {
    if (!rfb) return;
    for (const [keysym, code] of keys) rfb.sendKey(keysym, code, true);
    for (const [keysym, code] of keys.reverse()) rfb.sendKey(keysym, code, false);
    for (const open of document.querySelectorAll(':popover-open')) open.hidePopover();
    rfb.focus();
  }

  async function fullScreen() {
    if (document.fullscreenElement) return document.exitFullscreen();
    try {
      await document.querySelector('main').requestFullscreen();
      if (navigator.keyboard && navigator.keyboard.lock) await navigator.keyboard.lock();
      if (rfb) rfb.focus();
    } catch {
      note('The browser does not allow full screen here.');
    }
  }

  // --- start -----------------------------------------------------------------------------------
  function listen() {
    document.addEventListener('click', followLink, true);
    document.addEventListener('auxclick', followLink, true);
    document.addEventListener('keydown', keydown, true);
    document.addEventListener('paste', paste, true);
    document.addEventListener('visibilitychange', hurry);
    window.addEventListener('online', hurry);
    window.addEventListener('focus', offer);
    window.addEventListener('resize', drawTitle);
    window.addEventListener('storage', (event) => {
      if (event.key !== 'aiobox-theme') return;
      theme = pick(THEMES, event.newValue, 'system');
      paint();
    });
    $('curtain').querySelector('button').addEventListener('click', () => STATES[state].act());
    $('theme').addEventListener('click', () => {
      theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
      remember('aiobox-theme', theme);
      address('theme', null);
      paint();
    });
    $('size').addEventListener('click', () => {
      size = SIZES[(SIZES.indexOf(size) + 1) % SIZES.length];
      remember('aiobox-desktop-size', size);
      address('resize', null);
      applySize();
      drawTitle();
      note(SIZE_WORDS[size]);
    });
    $('view').addEventListener('click', () => {
      viewOnly = !viewOnly;
      address('view_only', viewOnly ? 'true' : null);
      applyView();
    });
    $('full').addEventListener('click', fullScreen);
    $('cad').addEventListener('click', () => press([0xffe3, 'ControlLeft'], [0xffe9, 'AltLeft'], [0xffff, 'Delete']));
    $('escape').addEventListener('click', () => press([0xff1b, 'Escape']));
    $('clipboard-text').addEventListener('input', () => {
      typed = $('clipboard-text').value !== '';
      give($('clipboard-text').value);
    });
    $('clipboard').addEventListener('toggle', (event) => event.newState === 'open' && $('clipboard-text').focus());
    $('clipboard-how').textContent = navigator.clipboard
      ? 'Copying on the desktop fills your own clipboard, and Ctrl+V pastes what is in that.'
      : 'Ctrl+V pastes what is in your own clipboard. The other way, copy from here: without HTTPS the browser does not let this page fill your clipboard.';
  }
  async function open() {
    listen();
    paint();
    applySize();
    applyView();
    try {
      RFB = (await import(withCredential('static/novnc/core/rfb.js'))).default;
    } catch {
      return show('missing');
    }
    if (isYes('autoconnect', true)) start();
    else show('idle');
  }
  window.desktop = { get rfb() { return rfb; }, get state() { return state; } }; // for tests and for the console
  if (document.readyState === 'loading') document.addEventListener('DOMContentLoaded', open);
  else open();
})();
