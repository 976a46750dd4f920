// The episodes of the page: filter, sort, open, or choose two of one seed to see them side by side.
function makeList(open, compare) {
  const state = { sort: 'number', down: false, words: '', mechanism: '', outcome: '' };
  const chosen = new Set();
  const rows = index.episodes.map((head, number) => ({ number, head, env: headText(head.env), mechanism: headText(head.mechanism), who: headText(head.who), source: headText(head.source) }));
  const several = (name) => new Set(rows.map((row) => row[name])).size > 1;
  const columns = [
    ['number', '#', (row) => row.number, 'n'], ['success', 'success', (row) => (row.head.success ? 1 : 0), ''],
    ['seed', 'seed', (row) => Number(row.head.seed), 'n'], ['mechanism', 'mechanism', (row) => row.mechanism + (row.head.oracle ? ' *' : ''), ''],
    ['rollbacks', 'rollbacks', (row) => row.head.ledger.rollbacks, 'n'],
    several('env') && ['env', 'environment', (row) => row.env, ''], several('who') && ['who', 'agent', (row) => row.who, ''],
    several('source') && ['source', 'from', (row) => row.source, ''], ['tree', 'tree', null, 'mini'],
    ['score', 'score', (row) => Number(row.head.score), 'n'],
    ['steps', 'steps', (row) => row.head.steps, 'n'], ['undone', 'undone', (row) => row.head.nodes - 1 - row.head.steps, 'n'],
    ['reviews', 'reviews', (row) => row.head.ledger.reviews, 'n'],
    ['calls', 'agent calls', (row) => row.head.ledger.agent_calls, 'n'],
  ].filter(Boolean);

  const words = h('input', { type: 'search', placeholder: 'Filter: seed, mechanism, environment, objective', 'aria-label': 'Filter the episodes', oninput: () => { state.words = words.value.toLowerCase(); fill(); } });
  const select = (name, title, options) => h('select', { 'aria-label': title, onchange: (event) => { state[name] = event.target.value; fill(); } }, options.map(([value, label]) => h('option', { value }, label)));
  const mechanisms = [...new Set(rows.map((row) => row.mechanism))].sort();
  const count = h('span', { class: 'quiet number', role: 'status' });
  const beside = h('button', { type: 'button', disabled: true, onclick: () => compare([...chosen]) }, 'Side by side');
  const body = h('tbody', {});
  const headers = columns.map(([name, label, value, kind]) => h('th', { scope: 'col', class: kind, 'aria-sort': 'none' },
    value ? h('button', { type: 'button', onclick: () => { state.down = state.sort === name ? !state.down : kind === 'n' && name !== 'number' && name !== 'seed'; state.sort = name; fill(); } }, label) : h('button', { type: 'button', disabled: true }, label)));
  const table = h('table', { class: 'runs' }, h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, h('span', { class: 'only-read' }, 'choose')), headers)), body);
  const element = h('section', { 'aria-label': 'Episodes' },
    h('div', { class: 'filters' }, words,
      mechanisms.length > 1 ? select('mechanism', 'Mechanism', [['', 'every mechanism'], ...mechanisms.map((name) => [name, name])]) : null,
      select('outcome', 'Outcome', [['', 'every outcome'], ['1', 'success'], ['0', 'no success']]), count, rows.length > 1 ? beside : null, rows.length > 1 ? h('span', { class: 'quiet' }, 'tick two of one seed') : null),
    h('div', { class: 'scroll' }, table),
    rows.some((row) => row.head.oracle) ? h('p', { class: 'quiet' }, '* reads the oracle') : null);

  function shown() {
    const by = columns.find(([name]) => name === state.sort)[2];
    const kept = rows.filter((row) => (!state.mechanism || row.mechanism === state.mechanism) && (state.outcome === '' || row.head.success === (state.outcome === '1')) && matches(row));
    kept.sort((a, b) => { const x = by(a), y = by(b); return (x < y ? -1 : x > y ? 1 : 0) * (state.down ? -1 : 1) || a.number - b.number; });
    return kept;
  }

  function matches(row) {
    if (!state.words) return true;
    const told = `#${row.number} seed ${row.head.seed} ${row.mechanism} ${row.env} ${row.who} ${row.source} ${row.head.success ? 'success' : 'no success'} ${row.head.stopped} ${headText(row.head.objective)}`.toLowerCase();
    return state.words.split(/\s+/).every((word) => told.includes(word));
  }

  function fill() {
    const kept = shown();
    count.textContent = kept.length === rows.length ? `${rows.length} episodes` : `${kept.length} of ${rows.length} episodes`;
    headers.forEach((header, i) => header.setAttribute('aria-sort', columns[i][0] === state.sort ? (state.down ? 'descending' : 'ascending') : 'none'));
    body.replaceChildren(...kept.map(row_));
    allowed();
  }

  function row_(row) {
    const box = h('input', { type: 'checkbox', 'aria-label': `Choose episode ${row.number} for side by side`, onchange: (event) => { if (event.target.checked) chosen.add(row.number); else chosen.delete(row.number); allowed(); } });
    box.checked = chosen.has(row.number);
    const cells = columns.map(([name, , value, kind]) => h('td', { class: kind }, name === 'number' ? h('button', { type: 'button', class: 'go', 'aria-label': `Open episode ${row.number}`, onclick: () => open(row.number) }, String(row.number))
      : name === 'tree' ? mini(row.head) : name === 'success' ? h('span', { class: row.head.success ? 'good' : 'bad' }, row.head.success ? '\u2713 success' : '\u2717 no')
      : bdi(name === 'score' ? row.head.score : name === 'seed' ? row.head.seed : String(value(row)))));
    const tr = h('tr', { 'data-episode': row.number }, h('td', {}, box), cells);
    tr.addEventListener('click', (event) => { if (!event.target.closest('button, input')) open(row.number); });
    return tr;
  }

  function allowed() {
    const two = [...chosen].map((number) => index.episodes[number]);
    const good = two.length === 2 && two[0].seed === two[1].seed && two[0].env === two[1].env && two[0].kwargs === two[1].kwargs;
    beside.disabled = !good;
    beside.title = good ? '' : 'Choose two episodes of one environment and seed';
  }

  fill();
  return { element, first: () => words };
}

// The tree in little: lines only, all on one scale.
const longestRun = Math.max(1, ...index.episodes.map((head) => Math.max(...head.mini.map(([, , to]) => to))));
function mini(head) {
  const wide = 170, steps = longestRun, lanes = Math.max(...head.mini.map(([lane]) => lane)) + 1;
  const tall = Math.min(34, 6 + lanes * 6), x = (step) => 4 + (step / steps) * (wide - 8), y = (lane) => 5 + (lane * (tall - 9)) / Math.max(1, lanes - 1 || 1);
  return s('svg', { width: wide, height: tall, 'aria-hidden': 'true' }, head.mini.map(([lane, from, to], i) =>
    s('path', { class: i ? 'line' : 'line live', d: `M${x(i ? from - 1 : from)} ${y(lane)}H${Math.max(x(to), x(from) + 1)}` })).reverse());
}
