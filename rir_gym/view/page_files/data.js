// Reads the blocks of the page: texts (see rir_gym/view/texts.py), episodes, and what the page needs to know of a node.
const index = JSON.parse(document.getElementById('index').textContent);
const blocks = new Map();

function block(number) {
  if (!blocks.has(number)) blocks.set(number, JSON.parse(document.getElementById('episode-' + number).textContent));
  return blocks.get(number);
}

// The text of an entry: its differences are followed back as ranges, so that a long chain is walked once.
function textOf(table, id) {
  let texts = table < 0 ? index.texts : block(table).texts;
  let entry = texts[id];
  while (typeof entry !== 'string' && entry.length === 2) { texts = block(entry[0]).texts; entry = texts[entry[1]]; }
  if (typeof entry === 'string') return entry;
  const chain = [];
  while (typeof entry !== 'string') {
    if (entry.length === 2) { texts = block(entry[0]).texts; entry = texts[entry[1]]; } else { chain.push(entry); entry = texts[entry[2]]; }
  }
  let pieces = [entry], length = entry.length;
  for (const [prefix, suffix, , middle] of chain.reverse()) {
    pieces = [...cut(pieces, 0, prefix), middle, ...cut(pieces, length - suffix, length)];
    length = prefix + middle.length + suffix;
  }
  return pieces.join('');
}

function cut(pieces, from, to) {
  const kept = [];
  let at = 0;
  for (const piece of pieces) {
    const low = Math.max(from - at, 0), high = Math.min(to - at, piece.length);
    if (high > low) kept.push(low === 0 && high === piece.length ? piece : piece.slice(low, high));
    at += piece.length;
  }
  return kept;
}

// Control characters are shown as pictures of themselves, so that no text can steer the page or turn a line around.
function visible(text) {
  return String(text)
    .replace(/\r\n/g, '\n')
    .replace(/[\u0000-\u0008\u000b-\u001f]/g, (c) => String.fromCharCode(0x2400 + c.charCodeAt(0)))
    .replace(/[\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g, (c) => '\u27e8' + c.charCodeAt(0).toString(16) + '\u27e9')
    .replace(/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, '\ufffd');
}

const oneLine = (text, most) => {
  const line = visible(text).replace(/\s+/g, ' ').trim();
  return line.length > most ? line.slice(0, most - 1).replace(/[\ud800-\udbff]$/, '') + '\u2026' : line;
};

const FLAGS = { terminated: 1, truncated: 2, success: 4, failed: 8, committed: 16 };

// An episode with what follows from its tree: children, events by node, the act that made each node, ledgers, memories.
const episodes = new Map();
function episodeOf(number) {
  if (!episodes.has(number)) episodes.set(number, readEpisode(number));
  return episodes.get(number);
}

function readEpisode(number) {
  const raw = block(number);
  const text = (id) => textOf(number, id);
  const nodes = raw.nodes.map((row, id) => ({
    id, parent: row[0], step: row[1], flags: row[2], action: row[3], observation: row[4], reward: row[5], info: row[6], oracle: row[7],
    summary: row[8], branch: raw.branch_of[id], lane: raw.branches[raw.branch_of[id]][0], children: [], events: [], by: null,
  }));
  for (const node of nodes) if (node.parent !== null) nodes[node.parent].children.push(node.id);
  let memory = raw.memory, counts = raw.counts.map(() => 0);
  raw.events.forEach((event, at) => {
    event.index = at;
    event.before = memory;
    if (event.memory !== undefined) memory = event.memory;
    event.after = memory;
    event.earlier = counts;
    if (event.counts.length) {
      counts = counts.slice();
      for (let i = 0; i < event.counts.length; i += 2) counts[event.counts[i]] = event.counts[i + 1];
    }
    event.ledger = counts;
    nodes[event.node].events.push(event);
    if (event.made !== undefined) nodes[event.made].by = event;
  });
  const backs = raw.returns.map(([at, source, target, depth], i) => ({ number: i + 1, at, source, target, depth }));
  return { number, head: index.episodes[number], nodes, backs, branches: raw.branches, steps: raw.steps, lanes: raw.lanes, last: raw.last,
    names: raw.counts, memory: raw.memory, events: raw.events, text };
}

const headText = (id) => (id === null ? '' : textOf(-1, id));
const isLive = (node) => node.branch === 0;
