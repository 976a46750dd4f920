// One episode on the page: its summary, tree, search and details, and how keys move in it.
function makeView(number, onMove, widest) {
  const episode = episodeOf(number), { nodes, head } = episode;
  const tree = makeTree(episode, (id) => choose(id), widest), details = makeDetails(episode, (id) => choose(id));
  let chosen = 0, hits = [], index_ = null;

  const query = h('input', { type: 'search', placeholder: 'Search this episode', 'aria-label': 'Search this episode', spellcheck: 'false', oninput: search });
  const prompts = h('input', { type: 'checkbox', onchange: search });
  const found = h('span', { class: 'quiet number', role: 'status' });
  const labels = h('button', { type: 'button', title: 'Show or hide actions (l)', onclick: () => tree.labels() }, 'Actions');
  const bar = h('div', { class: 'bar' },
    h('div', { class: 'find' }, query, found, h('button', { type: 'button', 'aria-label': 'Hit before', onclick: () => hit(-1) }, '\u2191'), h('button', { type: 'button', 'aria-label': 'Next hit', onclick: () => hit(1) }, '\u2193')),
    episode.events.some((event) => event.calls) ? h('label', { class: 'quiet check' }, prompts, 'prompts too') : null,
    labels,
    h('div', { class: 'zoom', role: 'group', 'aria-label': 'Zoom' }, h('button', { type: 'button', 'aria-label': 'Smaller', onclick: () => tree.zoom(1 / 1.4) }, '\u2212'),
      h('button', { type: 'button', 'aria-label': 'Larger', onclick: () => tree.zoom(1.4) }, '+'), h('button', { type: 'button', title: 'Whole width (0)', onclick: () => tree.zoom(0) }, 'Fit')));
  const element = h('section', { 'aria-label': `Episode ${number}` }, summary(), h('div', { class: 'tree' }, bar, tree.element, legend(episode)), details.element);

  function summary() {
    const ledger = head.ledger;
    const facts = [`seed ${head.seed}`, headText(head.mechanism) + (head.oracle ? ' (uses the oracle)' : ''), headText(head.who),
      `${head.steps} of ${nodes.length - 1} steps survive`, `${ledger.rollbacks} of ${head.budget[1]} rollbacks`, `${ledger.agent_calls} of ${head.budget[0]} agent calls`, `${ledger.reviews} reviews`];
    const kwargs = headText(head.kwargs), objective = headText(head.objective), box = h('p', { class: 'objective' }, bdi(objective));
    const about = h('details', {}, h('summary', {}, 'Settings and versions'));
    about.addEventListener('toggle', () => { if (about.children.length === 1) about.append(h('div', { class: 'pre' }, bdi(headText(head.about)))); });
    const folds = [about];
    const parts = [h('div', { class: 'summary' }, h('h1', {}, bdi(headText(head.env) + (kwargs ? ` (${kwargs})` : ''))),
      h('span', { class: `result ${head.success ? 'good' : 'bad'}` }, `${head.success ? '\u2713 success' : '\u2717 no success'}, score ${head.score}`),
      facts.map((fact) => h('span', { class: 'quiet number' }, bdi(fact))))];
    if (objective) {
      parts.push(box);
      if (objective.length > 170) {
        box.classList.add('long');
        const more = h('button', { class: 'more', type: 'button', 'aria-expanded': 'false', onclick: () => {
          const open = box.classList.toggle('long');
          more.textContent = open ? 'Whole objective' : 'Less';
          more.setAttribute('aria-expanded', String(!open));
        } }, 'Whole objective');
        folds.unshift(more);
      }
    }
    if (head.final !== null) parts.push(h('p', {}, 'Final response: ', bdi(headText(head.final))));
    parts.push(h('div', { class: 'folds' }, folds));
    return h('header', {}, parts);
  }

  function choose(id, quietly) {
    chosen = id;
    tree.choose(id);
    details.show(id);
    if (!quietly) onMove(number, id);
  }

  // --- search ---

  function textsOf(node, deep) {
    const parts = [node.action, node.observation, node.summary];
    const calls = (event) => { for (const call of event.calls || []) { parts.push(call.text); if (deep) for (const [, id] of call.messages) parts.push(id); } };
    if (node.by) { parts.push(node.by.thought); calls(node.by); }
    for (const event of node.events) {
      if (event.made === undefined) { parts.push(event.thought, event.action); calls(event); }
      parts.push(event.diagnosis, event.justification, ...(event.learned || []), event.memory);
    }
    return parts.filter((id) => id !== null && id !== undefined);
  }

  function search() {
    const words = query.value.toLowerCase(), deep = prompts.checked;
    if (!words) { hits = []; tree.find([]); found.textContent = ''; return; }
    if (!index_ || index_.deep !== deep) {
      const lower = new Map();
      index_ = { deep, rows: nodes.map((node) => textsOf(node, deep)), low: (id) => { if (!lower.has(id)) lower.set(id, episode.text(id).toLowerCase()); return lower.get(id); } };
    }
    const has = new Map();
    hits = nodes.filter((node) => index_.rows[node.id].some((id) => { if (!has.has(id)) has.set(id, index_.low(id).includes(words)); return has.get(id); })).map((node) => node.id);
    tree.find(hits);
    found.textContent = hits.length ? `${hits.length} of ${nodes.length} nodes` : 'none';
  }

  function hit(by) {
    if (!hits.length) return;
    const next = by > 0 ? hits.find((id) => id > chosen) ?? hits[0] : hits.findLast((id) => id < chosen) ?? hits[hits.length - 1];
    choose(next);
  }

  // --- keys ---

  function along(by) {
    const node = nodes[chosen];
    if (by < 0) return node.parent ?? chosen;
    return node.children.find((id) => nodes[id].branch === node.branch) ?? node.children[0] ?? chosen;
  }

  function across(by) {
    const node = nodes[chosen], brothers = node.parent === null ? [] : nodes[node.parent].children.slice().sort((a, b) => nodes[a].lane - nodes[b].lane || a - b);
    const beside = brothers[brothers.indexOf(chosen) + by];
    if (beside !== undefined) return beside;
    const others = nodes.filter((other) => (other.lane - node.lane) * by > 0);
    const cost = (other) => Math.abs(other.lane - node.lane) * 3 + Math.abs(other.step - node.step);
    return others.reduce((best, other) => (best === null || cost(other) < cost(best) ? other : best), null)?.id ?? chosen;
  }

  function rollback(by) {
    const at = nodes[chosen];
    const places = episode.backs.map((back) => back.source), sorted = [...new Set(places)].sort((a, b) => a - b);
    return (by > 0 ? sorted.find((id) => id > at.id) : sorted.findLast((id) => id < at.id)) ?? chosen;
  }

  const KEYS = {
    ArrowLeft: () => choose(along(-1)), ArrowRight: () => choose(along(1)), ArrowUp: () => choose(across(-1)), ArrowDown: () => choose(across(1)),
    j: () => choose(Math.min(chosen + 1, nodes.length - 1)), k: () => choose(Math.max(chosen - 1, 0)), r: () => choose(rollback(1)), R: () => choose(rollback(-1)),
    n: () => hit(1), N: () => hit(-1), Home: () => choose(0), End: () => choose(episode.last), '+': () => tree.zoom(1.4), '=': () => tree.zoom(1.4), '-': () => tree.zoom(1 / 1.4),
    0: () => tree.zoom(0), l: () => tree.labels(), '/': () => { query.focus(); query.select(); },
  };
  query.addEventListener('keydown', (event) => {
    if (event.key === 'Enter') hit(event.shiftKey ? -1 : 1);
    else if (event.key === 'Escape') { if (query.value) { query.value = ''; search(); } tree.stage.focus(); }
    else return;
    event.preventDefault();
    event.stopPropagation();
  });

  return { number, episode, element, tree, choose, key: (name) => { if (!KEYS[name]) return false; KEYS[name](); return true; }, chosen: () => chosen,
    draw(id) { tree.draw(); choose(id ?? 0, true); } };
}
