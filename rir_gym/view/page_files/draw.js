// Small makers of elements. Text goes in as text nodes only; nothing here, or anywhere on this page, parses markup.
function put(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? '' : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(child));
  }
  return element;
}
const h = (name, attributes, ...children) => put(document.createElement(name), attributes, children);
const s = (name, attributes, ...children) => put(document.createElementNS('http://www.w3.org/2000/svg', name), attributes, children);
const bdi = (text) => h('bdi', {}, visible(text));

// The shapes of the marks, around (x, y); one place for the tree and its legend.
const diamond = (x, y, r) => `M${x} ${y - r}L${x + r} ${y}L${x} ${y + r}L${x - r} ${y}Z`;
const ring = (x, y, r) => `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0Z`;
const square = (x, y, r) => `M${x - r} ${y - r}h${2 * r}v${2 * r}h${-2 * r}Z`;
const SHAPES = {
  continue: (x, y) => [['mark continue', diamond(x, y, 4)]],
  rollback: (x, y) => [['mark rollback', diamond(x, y, 4.5)]],
  refused: (x, y) => [['mark refused', diamond(x, y, 4.5) + `M${x - 2.2} ${y + 2.2}L${x + 2.2} ${y - 2.2}`]],
  correction: (x, y) => [['mark correction', square(x, y, 3.6) + `M${x - 1.6} ${y}h3.2M${x} ${y - 1.6}v3.2`]],
  unread: (x, y) => [['mark unread', `M${x - 3.5} ${y - 3.5}l7 7M${x + 3.5} ${y - 3.5}l-7 7`]],
  ask: (x, y) => [['mark ask', `M${x - 2.6} ${y - 2.2}a2.7 2.5 0 1 1 4.4 2q-1.7 1 -1.8 2.4M${x} ${y + 4.6}v.4`]],
  final: (x, y) => [['mark ask', `M${x} ${y - 5}v6.4M${x} ${y + 4.6}v.4`]],
  committed: (x, y) => [['mark committed', `M${x - 2.2} ${y - 9}v18M${x + 2.2} ${y - 9}v18`]],
  success: (x, y) => [['mark success', ring(x, y, 8)], ['mark tick', `M${x - 3.6} ${y + .2}l2.6 2.8l4.8 -5.6`]],
  failed: (x, y) => [['mark failed', ring(x, y, 8)], ['mark tick', `M${x - 3} ${y - 3}l6 6M${x + 3} ${y - 3}l-6 6`]],
  stopped: (x, y) => [['mark stopped', square(x, y, 6)]],
};
const shape = (kind, x, y) => SHAPES[kind](x, y).map(([name, d]) => s('path', { class: name, d }));

// What stands below a node: one mark for each thing that was said there, in order.
function marksOf(node) {
  const marks = [];
  for (const event of node.events) {
    if (event.kind === 'review') {
      const kind = { continue: 'continue', rollback: 'rollback', correction: 'correction', unparsed: 'unread' }[event.outcome] || 'refused';
      marks.push({ kind, urgency: event.urgency === '' ? null : Math.min(1, Math.max(0, Number(event.urgency) || 0)) });
    } else if (event.kind === 'act' && event.decision === 'request') marks.push({ kind: 'ask', urgency: null });
    else if (event.kind === 'act' && event.decision === 'unparsed') marks.push({ kind: 'unread', urgency: null });
    else if (event.kind === 'act' && event.decision === 'final') marks.push({ kind: 'final', urgency: null });
  }
  return marks;
}

// How a branch ended, for the mark on its last node.
function endOf(episode, node) {
  if (node.id !== episode.last && node.id !== episode.branches[node.branch][3]) return null;
  if (node.flags & FLAGS.success) return 'success';
  const over = node.flags & (FLAGS.terminated | FLAGS.truncated);
  if (node.id === episode.last) return episode.head.success ? 'success' : node.flags & FLAGS.failed || over ? 'failed' : 'stopped';
  if (node.flags & FLAGS.failed || (over && !node.children.length)) return 'failed';
  return null;
}

const WORDS = { continue: 'review: continue', rollback: 'review: rollback', refused: 'review: rollback, not done', correction: 'corrected in place (k = 0)',
  unread: 'unreadable reply', ask: 'the agent asks to go back', final: 'final response', committed: 'committed: no way back beyond', success: 'success',
  failed: 'no success', stopped: 'stopped here' };
