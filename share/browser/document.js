// The document as a whole. Pages can have elements named "title" or "body", which hide what the document has.
const document_property = (name) =>
  Object.getOwnPropertyDescriptor(Document.prototype, name).get.call(document);

const within = (text, what, most) => {
  if (text.length > most) throw new Error(`the page's ${what} has ${text.length} characters: more than ${most}`);
  return text.toWellFormed();
};

// Where the page is, what it is called, and the status of its response (null where there was none).
library.document_facts = () => ({
  url: location.href.slice(0, 100000).toWellFormed(),
  title: String(document_property('title')).slice(0, 4096).toWellFormed(),
  status: (!/^(data|file|blob|about):$/.test(location.protocol) &&
    performance.getEntriesByType('navigation')[0]?.responseStatus) || null,
});

library.document_html = ({ outer, most }) => {
  const root = document_property('documentElement');
  if (!root) return '';
  if (!outer) return within(root.innerHTML, 'HTML', most);
  const type = document_property('doctype');
  return within((type ? new XMLSerializer().serializeToString(type) + '\n' : '') + root.outerHTML, 'HTML', most);
};

library.document_text = ({ most }) => {
  const body = document_property('body') ?? document_property('documentElement');
  return body ? within(body.innerText ?? body.textContent ?? '', 'text', most) : '';
};

// Waits until the browser's window has that size, for a while at most: who opens one, or resizes the screen, hears of it before that.
library.document_window = ({ width, height, ms }) => new Promise((done) => {
  const end = (fits) => {
    removeEventListener('resize', look);
    clearTimeout(timer);
    done(fits);
  };
  const fits = () => outerWidth === width && outerHeight === height;
  const look = () => fits() && end(true);
  const timer = setTimeout(() => end(fits()), ms);
  addEventListener('resize', look);
  look();
});
