// Numbered frames around the elements that library.elements() lists, for a picture. They are in a layer of their own above all, dialogs
// too, which is not there any more when the picture is taken.

const marks = { layer: null, users: 0, timer: 0 };
const MARK_COLOURS = ['#c4001a', '#0b57d0', '#146c2e', '#8e24aa', '#a04000', '#006874'];
const MARKS_LAST_MS = 30000; // if they are not removed before
const LABEL_HEIGHT = 14;

const styled = (style) => {
  const element = document.createElementNS('http://www.w3.org/1999/xhtml', 'div');
  element.style.cssText = style;
  return element;
};

// Inside of what is large enough, else above it.
const markOf = (element, corner) => {
  const box = dom.box(element), index = numbered.numbers.get(element);
  const colour = MARK_COLOURS[index % MARK_COLOURS.length];
  const x = box.x - corner.x, y = box.y - corner.y;
  const above = box.height < 2 * LABEL_HEIGHT && box.y + scrollY >= LABEL_HEIGHT;
  const frame = styled(`position: absolute; box-sizing: border-box; border: 2px solid ${colour}; left: ${x}px; top: ${y}px; ` +
    `width: ${box.width}px; height: ${box.height}px`);
  const label = styled(`position: absolute; left: ${x}px; top: ${above ? y - LABEL_HEIGHT : y}px; height: ${LABEL_HEIGHT}px; padding: 0 3px; ` +
    `background: ${colour}; color: #fff; font: bold 11px/${LABEL_HEIGHT}px sans-serif; white-space: nowrap`);
  label.textContent = index;
  return [frame, label];
};

const removeMarks = () => {
  clearTimeout(marks.timer);
  marks.layer?.remove();
  Object.assign(marks, { layer: null, users: 0 });
};

const drawMarks = (elements) => {
  const layer = styled('all: initial !important; position: absolute !important; left: 0 !important; top: 0 !important; ' +
    'width: 0 !important; height: 0 !important; overflow: visible !important; pointer-events: none !important');
  layer.popover = 'manual';
  const shadow = layer.attachShadow({ mode: 'closed' });
  dom.root(document).append(layer);
  layer.showPopover();
  const corner = dom.box(layer);
  shadow.append(...elements.flatMap((element) => markOf(element, corner)));
  return layer;
};

// Draws marks around what has a number in this frame, and waits until they are shown; or takes them away.
library.marks = async ({ on, max }) => {
  const users = marks.users;
  if (!on) {
    marks.users = Math.max(0, users - 1);
    if (!marks.users) removeMarks();
    return;
  }
  removeMarks();
  marks.layer = drawMarks(usable(max).filter((element) => numbered.numbers.has(element)));
  marks.users = users + 1;
  marks.timer = setTimeout(removeMarks, MARKS_LAST_MS);
  await painted();
};
