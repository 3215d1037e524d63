// The API explorer page: Swagger UI with aiobox's header, search, group list and colour scheme.
'use strict';
(() => {
  const $ = (id) => document.getElementById(id);
  const root = document.documentElement;
  const main = $('main'); // the part that scrolls

  // --- credentials of the page's URL -----------------------------------------------------------
  // Opened as ?api_key=… or ?ticket=…, the page hands the same credential to everything it loads.
  const given = new URLSearchParams(location.search);
  const credential = ['api_key', 'ticket'].filter((k) => given.get(k)).map((k) => [k, given.get(k)]);

  function withCredential(address) {
    const url = new URL(address, location.href);
    if (url.origin !== location.origin) return address;
    for (const [k, v] of credential) if (!url.searchParams.has(k)) url.searchParams.set(k, v);
    return url.href;
  }

  function hasCredentialHeader(headers) {
    return Object.keys(headers || {}).some((h) => /^(authorization|x-aio-api-key)$/i.test(h));
  }

  // Enters the key in the scheme that the server's document declares for it.
  function enterApiKey(ui) {
    const schemes = ui.specSelectors.specJson().getIn(['components', 'securitySchemes']);
    const key = given.get('api_key');
    if (!schemes || !key) return;
    const find = (test) => schemes.findKey((s) => test(s.toJS()));
    const name =
      find((s) => s.type === 'apiKey' && s.in === 'header') ||
      find((s) => s.type === 'http' && /^bearer$/i.test(s.scheme));
    if (name) ui.preauthorizeApiKey(name, key);
  }

  function followLink(event) {
    const a = credential.length && event.target.closest && event.target.closest('a[href]');
    if (a && !a.getAttribute('href').startsWith('#')) a.href = withCredential(a.href);
  }
  document.addEventListener('click', followLink, true);
  document.addEventListener('auxclick', followLink, true);

  function notice(text) {
    $('notice').textContent = text;
    $('notice').hidden = !text;
  }

  // --- colour scheme ---------------------------------------------------------------------------
  const THEMES = ['system', 'light', 'dark'];
  const ICONS = {
    system: 'M2.5 3h11v7.5h-11zM6 13.5h4M8 10.5v3',
    light: 'M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6ZM8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1 1M12 12l1 1M3 13l1-1M12 4l1-1',
    dark: 'M13.5 9.5A6 6 0 0 1 6.5 2.5 6 6 0 1 0 13.5 9.5Z',
  };
  const systemDark = matchMedia('(prefers-color-scheme: dark)');
  let theme = 'system';
  try {
    theme = THEMES.find((t) => t === localStorage.getItem('aiobox-theme')) || theme;
  } catch { /* no storage: follow the system */ }

  function paint() {
    const dark = theme === 'dark' || (theme === 'system' && systemDark.matches);
    root.classList.toggle('dark-mode', dark);
    root.style.colorScheme = dark ? 'dark' : 'light';
    $('theme').innerHTML = `<svg viewBox="0 0 16 16" aria-hidden="true"><path d="${ICONS[theme]}"/></svg>`;
    $('theme').title = `Colour scheme: ${theme}`;
    $('theme').setAttribute('aria-label', `Colour scheme: ${theme}`);
  }
  $('theme').addEventListener('click', () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    try {
      localStorage.setItem('aiobox-theme', theme);
    } catch { /* lasts until the page closes */ }
    paint();
  });
  systemDark.addEventListener('change', paint);
  paint();

  // --- search ----------------------------------------------------------------------------------
  // Every word has to occur in the operation's method, path, summary, id or group.
  function matching(groups, phrase) {
    const words = String(phrase).toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length) return groups;
    const found = (tag, op) => {
      const text = [tag, op.get('method'), op.get('path'), op.getIn(['operation', 'summary']), op.getIn(['operation', 'operationId'])]
        .join(' ')
        .toLowerCase();
      return words.every((w) => text.includes(w));
    };
    return groups
      .map((group, tag) => group.update('operations', (ops) => ops.filter((op) => found(tag, op))))
      .filter((group) => group.get('operations').size);
  }

  // Swagger UI keeps long lists out of the page until they scroll into view; ours is short enough
  // to be there as a whole, so that the browser's own search and the Tab key reach everything.
  const Operations = (React) => (props) => {
    const { specSelectors, getComponent } = props;
    const Tag = getComponent('OperationTag');
    const Operation = getComponent('OperationContainer', true);
    const methods = specSelectors.validOperationMethods();
    const row = (tag, op) => {
      const [path, method, specPath] = ['path', 'method', 'specPath'].map((k) => op.get(k));
      return methods.includes(method) && React.createElement(Operation, { key: `${path}-${method}`, specPath, op, path, method, tag });
    };
    const group = ([tag, tagObj]) => {
      const rows = tagObj.get('operations').map((op) => row(tag, op)).toArray();
      return React.createElement(Tag, { ...props, key: tag, tag, tagObj, specUrl: specSelectors.url() },
        React.createElement('div', { className: 'operation-tag-content' }, rows));
    };
    return React.createElement('div', null, specSelectors.taggedOperations().entrySeq().map(group).toArray());
  };

  // #/group/operation. Swagger UI's own reading takes "_" for an old spelling of a blank, and warns.
  const openLink = (original, { layoutActions }) => (hash) => {
    const [tag, id] = hash.replace(/^#!?\/?/, '').split('/');
    if (!tag) return;
    const place = id ? ['operations', tag, id] : ['operations-tag', tag];
    layoutActions.show(['operations-tag', tag], true);
    layoutActions.show(place, true);
    layoutActions.scrollTo(place);
  };

  // The link inside a row or heading is for the mouse: the keyboard has the button around or beside it.
  const DeepLink = (React) => ({ path, text }) =>
    React.createElement('a', { className: 'nostyle', href: `#/${path}`, tabIndex: -1, onClick: (e) => e.preventDefault() },
      React.createElement('span', null, text));

  // Code in the page's own colours, which change with the scheme.
  const tone = (name) => ({ color: `var(--${name})` });
  const code = {
    hljs: { display: 'block', overflowX: 'auto', padding: '12px 14px', background: 'var(--code)', ...tone('ink') },
    'hljs-attr': tone('get'),
    'hljs-string': tone('post'),
    'hljs-number': tone('put'),
    'hljs-literal': tone('put'),
    'hljs-keyword': tone('put'),
    'hljs-tag': tone('get'),
    'hljs-comment': tone('dim'),
  };

  // A request body to start from: what is optional and may be null is null, not an invented "string".
  const known = (schema) => ['default', 'example', 'examples', 'const'].some((k) => schema[k] !== undefined);
  const nullable = (schema) => [schema, ...(schema.anyOf || []), ...(schema.oneOf || [])].some((s) => [].concat(s.type).includes('null'));
  const betterSample = (original) => (schema, mediaType, config, example) => {
    const sample = original(schema, mediaType, config, example);
    const plain = schema && schema.toJS ? schema.toJS() : schema;
    const ours = example === undefined && config && config.includeWriteOnly && /json/.test(mediaType);
    if (!ours || !plain || !plain.properties || known(plain)) return sample;
    let body;
    try {
      body = typeof sample === 'string' ? JSON.parse(sample) : { ...sample };
    } catch {
      return sample;
    }
    for (const [name, property] of Object.entries(plain.properties)) {
      if (name in body && !(plain.required || []).includes(name) && nullable(property) && !known(property)) body[name] = null;
    }
    return JSON.stringify(body, null, 2);
  };

  const Nothing = () => null;
  const aiobox = ({ React }) => ({
    afterLoad() {
      this.fn.getSampleSchema = betterSample(this.fn.getSampleSchema);
    },
    rootInjects: { syntaxHighlighting: { styles: { aiobox: code }, defaultStyle: code } },
    fn: { opsFilter: matching },
    components: { FilterContainer: Nothing, InfoUrl: Nothing, DeepLink: DeepLink(React), operations: Operations(React) },
    statePlugins: { layout: { wrapActions: { parseDeepLinkHash: openLink } } },
  });

  // --- the explorer ----------------------------------------------------------------------------
  if (!window.SwaggerUIBundle) {
    $('explorer').innerHTML = '';
    notice('The API explorer is not installed here. The API description is at /v1/openapi.json.');
    return;
  }

  const ui = window.SwaggerUIBundle({
    url: '/v1/openapi.json',
    domNode: $('explorer'),
    deepLinking: true,
    docExpansion: 'list',
    defaultModelsExpandDepth: 0,
    displayRequestDuration: true,
    syntaxHighlight: { activated: true, theme: 'aiobox' },
    tryItOutEnabled: true,
    validatorUrl: null,
    plugins: [aiobox],
    requestInterceptor(request) {
      if (credential.length && (request.loadSpec || !hasCredentialHeader(request.headers))) request.url = withCredential(request.url);
      return request;
    },
    responseInterceptor(response) {
      if (response.status === 401) notice('The server refused the credentials: use Authorize to enter an API key or a token.');
      else if (response.ok) notice('');
      return response;
    },
    onComplete() {
      enterApiKey(ui);
      total = listGroups();
      search();
    },
  });
  let total = 0;

  // --- group list ------------------------------------------------------------------------------
  const links = new Map(); // tag → its link
  const heading = (tag) => [...main.querySelectorAll('.opblock-tag')].find((h) => h.dataset.tag === tag);
  const groups = () => ui.specSelectors.taggedOperations();

  function listGroups() {
    let sum = 0;
    groups().forEach((group, tag) => {
      const a = document.createElement('a');
      a.href = `#/${encodeURIComponent(tag)}`;
      a.append(Object.assign(document.createElement('span'), { textContent: tag }), document.createElement('small'));
      a.addEventListener('click', (event) => {
        event.preventDefault();
        ui.layoutActions.show(['operations-tag', tag], true);
        requestAnimationFrame(() => {
          const h = heading(tag);
          if (!h) return;
          h.scrollIntoView({ block: 'start' });
          h.querySelector('button').focus({ preventScroll: true });
        });
      });
      links.set(tag, a);
      $('tags').append(a);
      sum += group.get('operations').size;
    });
    return sum;
  }

  function search() {
    const phrase = $('filter').value.trim();
    ui.layoutActions.updateFilter(phrase || true);
    root.classList.toggle('searching', phrase !== '');
    let sum = 0;
    const left = groups();
    for (const [tag, a] of links) {
      const n = left.has(tag) ? left.getIn([tag, 'operations']).size : 0;
      a.hidden = !n;
      a.lastChild.textContent = n;
      sum += n;
    }
    $('none').hidden = sum > 0;
    $('count').textContent = sum === total ? `${total} operations` : `${sum} of ${total} operations`;
    requestAnimationFrame(markCurrent);
  }

  function markCurrent() {
    const top = main.getBoundingClientRect().top + 80;
    let current = null;
    for (const h of main.querySelectorAll('.opblock-tag')) {
      if (h.getBoundingClientRect().top > top && current) break;
      current = h.dataset.tag;
    }
    for (const [tag, a] of links) {
      if (tag !== current) a.removeAttribute('aria-current');
      else if (!a.hasAttribute('aria-current')) {
        a.setAttribute('aria-current', 'true');
        a.scrollIntoView({ block: 'nearest', inline: 'nearest' });
      }
    }
  }
  main.addEventListener('scroll', () => requestAnimationFrame(markCurrent), { passive: true });

  let pending = 0;
  $('filter').addEventListener('input', () => {
    clearTimeout(pending);
    pending = setTimeout(() => {
      main.scrollTop = 0;
      search();
    }, 90);
  });
  $('filter').addEventListener('keydown', (event) => {
    if (event.key === 'Enter' || event.key === 'ArrowDown') {
      const first = main.querySelector('.opblock-summary-control');
      if (first) first.focus();
      event.preventDefault();
    } else if (event.key === 'Escape' && !$('filter').value) {
      $('filter').blur();
    }
  });
  document.addEventListener('keydown', (event) => {
    const typing = event.target.closest('input, textarea, select, [contenteditable]');
    const slash = event.key === '/' && !typing && !event.ctrlKey && !event.metaKey && !event.altKey;
    const k = event.key === 'k' && (event.ctrlKey || event.metaKey);
    if (!slash && !k) return;
    event.preventDefault();
    $('filter').focus();
    $('filter').select();
  });
})();
