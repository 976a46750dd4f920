// What one node holds: observation, action, what was said there, prompts as sent, memory before and after, the ledger.
// Prompts are made when they are opened.
function makeDetails(episode, go) {
  const { nodes, text } = episode;
  const element = h('div', { class: 'details', 'aria-live': 'off' });
  const link = (id, words) => h('button', { class: 'go', type: 'button', onclick: () => go(id) }, words);
  const card = (title, ...children) => h('section', { class: 'card' }, h('h3', {}, title), children);
  const pre = (words) => h('div', { class: 'pre' }, bdi(words));

  function show(id) {
    const node = nodes[id];
    element.replaceChildren(heading(node), stepCard(node), saidCard(node), h('div', { class: 'column' }, memoryCard(node), ledgerCard(node)));
  }

  function heading(node) {
    const chips = [isLive(node) ? chip('live', 'surviving') : chip('gone', `abandoned, branch ${node.branch}`)];
    if (node.id === episode.last) chips.push(chip(episode.head.success ? 'good' : 'bad', episode.head.success ? 'success' : 'no success'));
    else if (node.flags & FLAGS.success) chips.push(chip('good', 'success'));
    if (node.flags & FLAGS.failed) chips.push(chip('bad', 'failed'));
    if (node.flags & FLAGS.terminated) chips.push(chip('gone', 'terminated'));
    if (node.flags & FLAGS.truncated) chips.push(chip('gone', 'truncated'));
    if (node.flags & FLAGS.committed) chips.push(chip('commit', 'committed'));
    const turn = h('div', { class: 'turn' },
      h('button', { type: 'button', disabled: node.id === 0, onclick: () => go(node.id - 1) }, '\u2039 Earlier'),
      h('button', { type: 'button', disabled: node.id === nodes.length - 1, onclick: () => go(node.id + 1) }, 'Later \u203a'));
    return h('div', { class: 'heading' }, h('h2', {}, `Step ${node.step}`), h('span', { class: 'quiet number' }, `node ${node.id} of ${nodes.length - 1}`), chips, turn);
  }

  const chip = (kind, words) => h('span', { class: `chip ${kind}` }, words);

  function stepCard(node) {
    const by = node.by, parts = [];
    if (node.action !== null) parts.push(h('div', { class: 'action' }, bdi(text(node.action))));
    if (by) {
      const thought = text(by.thought);
      if (thought) parts.push(h('p', { class: 'prose thought' }, bdi(thought)));
    }
    parts.push(h('div', { class: 'prose observation' }, bdi(text(node.observation)) ));
    const facts = [];
    if (node.reward !== '' && node.reward !== '0') facts.push(`reward ${node.reward}`);
    if (by && by.agent_calls !== 1) facts.push(`${by.agent_calls} agent calls`);
    if (facts.length) parts.push(h('p', { class: 'small' }, facts.join(', ')));
    if (text(node.summary)) parts.push(fold('Place and progress (\u03c3)', () => pre(text(node.summary))));
    if (text(node.info)) parts.push(fold('Info', () => pre(text(node.info))));
    if (node.oracle !== null) parts.push(fold('What the oracle knows', () => pre(text(node.oracle))));
    if (by) parts.push(...calls(by));
    return card(node.action === null ? 'First observation' : 'Action and observation', parts);
  }

  function fold(title, make) {
    const box = h('details', {}, h('summary', {}, title));
    box.addEventListener('toggle', () => { if (box.open && box.children.length === 1) box.append(make()); });
    return box;
  }

  function calls(event) {
    return (event.calls || []).map((call) => {
      const tokens = call.tokens ? `, ${call.tokens[0]} prompt tokens (${call.tokens[1]} reused), ${call.tokens[2]} generated` : '';
      const kind = { first: '', sub: ', sub-request', reask: ', asked again' }[call.kind] ?? `, ${call.kind}`;
      return fold(`Prompt as sent: ${call.role}${kind}${tokens}`, () => h('div', {},
        call.messages.map(([role, id]) => h('div', { class: 'message' }, h('b', {}, bdi(role)), pre(text(id)))),
        h('div', { class: 'message' }, h('b', {}, 'reply'), pre(text(call.text))),
        call.options === undefined ? null : h('div', { class: 'message' }, h('b', {}, 'scores of the options'), pre(text(call.options)))));
    });
  }

  function saidCard(node) {
    const parts = [];
    let seen = -1;
    for (const event of node.events) {
      for (const back of episode.backs) {
        if (back.target === node.id && back.at > seen && back.at < event.index) parts.push(came(back));
      }
      seen = event.index;
      parts.push(said(event, node));
    }
    for (const back of episode.backs) if (back.target === node.id && back.at > seen) parts.push(came(back));
    if (node.id === episode.last) {
      const ending = `${episode.head.success ? 'Success' : 'No success'}, score ${episode.head.score}; stopped: ${episode.head.stopped}`;
      parts.push(h('div', { class: 'event' }, h('h4', {}, chip(episode.head.success ? 'good' : 'bad', 'end')), h('p', {}, ending)));
    }
    return card('What was said here', parts.length ? parts : h('p', { class: 'quiet' }, 'Nothing.'));
  }

  const came = (back) => h('p', { class: 'came' }, `\u21a9 Rollback ${back.number} came back to here from `, link(back.source, `step ${nodes[back.source].step}`), '.');

  function said(event, node) {
    const { title, kind, body } = { act, review, where, patch }[event.kind](event, node);
    return h('div', { class: `event ${kind}` }, h('h4', {}, title), body, event.made === undefined ? calls(event) : null);
  }

  function act(event) {
    const title = [], body = [], kind = event.outcome;
    const words = { action: 'Action', request: 'Asks to go back', final: 'Final response', unparsed: 'Unreadable reply' }[event.decision] || event.decision;
    title.push(words, chip({ executed: 'live', submitted: 'live', dropped: 'back', declined: 'ask', unparsed: 'commit' }[kind] || 'gone', kind));
    if (event.decision === 'request' && event.target !== null) body.push(h('p', {}, `to step ${event.target}`));
    if (event.decision === 'action' || event.decision === 'final') body.push(h('div', { class: 'action' }, bdi(text(event.action))));
    if (event.made !== undefined) body.push(h('p', {}, link(event.made, `\u2192 step ${nodes[event.made].step}${nodes[event.made].branch === nodes[event.node].branch ? '' : nodes[event.made].branch ? ', branch ' + nodes[event.made].branch : ', surviving branch'}`)));
    else if (text(event.thought)) body.push(h('p', { class: 'prose thought' }, bdi(text(event.thought))));
    if (event.decision === 'unparsed') body.push(h('p', { class: 'quiet' }, 'Nothing was done; the call counts.'));
    return { title, body, kind };
  }

  function review(event) {
    const title = ['Review', chip({ continue: 'live', rollback: 'back', correction: 'back', unparsed: 'commit' }[event.outcome] || 'bad', event.outcome === event.verdict ? event.verdict : `${event.verdict}, ${event.outcome}`)];
    const body = [];
    if (event.urgency !== '' && event.outcome !== 'unparsed') {
      const share = Math.min(1, Math.max(0, Number(event.urgency) || 0)), bar = h('span', {});
      bar.style.width = `${share * 100}%`;
      title.push(h('span', {}, `urgency ${event.urgency}`), h('span', { class: 'urgency', 'aria-hidden': 'true' }, bar));
    }
    if (text(event.diagnosis)) body.push(h('p', {}, bdi(text(event.diagnosis))));
    if (event.learned.length) body.push(h('p', { class: 'small' }, 'Learned'), h('ul', {}, event.learned.map((id) => h('li', {}, bdi(text(id))))));
    return { title, body, kind: event.outcome };
  }

  function where(event) {
    const body = [];
    if (event.point) {
      const depth = nodes[event.node].step - event.point[1];
      body.push(h('p', {}, 'Resume at ', link(event.point[0], `step ${event.point[1]}`), event.point[0] === event.node ? ' (k = 0: corrected in place)' : ` (k = ${depth})`));
    } else body.push(h('p', {}, 'No readable restore point: the rollback was given up.'));
    const facts = [];
    if (event.interval) facts.push(`interval [${event.interval.join(', ')}]`);
    if (event.interval_unread) facts.push('interval unreadable');
    if (event.confidence !== '') facts.push(`confidence ${event.confidence}`);
    if (event.stages.length) facts.push(`stages: ${event.stages.join(', ')}`);
    if (facts.length) body.push(h('p', { class: 'quiet' }, bdi(facts.join('; '))));
    if (text(event.justification)) body.push(h('p', {}, bdi(text(event.justification))));
    return { title: ['Where to resume'], body, kind: event.point && event.point[0] === event.node ? 'correction' : 'rollback' };
  }

  function patch(event) {
    const body = [h('p', { class: 'quiet' }, event.unread ? 'The reflection was unreadable.' : event.after === event.before ? 'The memory did not change.' : 'The memory changed; see beside.')];
    return { title: ['What to remember', event.invoked ? null : chip('gone', 'not asked')], body, kind: 'rollback' };
  }

  function span(node) {
    const first = node.by, last = node.events[node.events.length - 1];
    return { first, last, before: first ? first.after : episode.memory, after: last ? last.after : first ? first.after : episode.memory };
  }

  function memoryCard(node) {
    const { before, after } = span(node);
    const old = before === null ? '' : text(before), now = after === null ? '' : text(after);
    const parts = [];
    if (before === null && after === null) parts.push(h('p', { class: 'quiet' }, 'Stands in no record here.'));
    else if (!old && !now) parts.push(h('p', { class: 'quiet' }, 'Empty.'));
    else {
      parts.push(h('p', { class: 'quiet' }, old === now ? 'Unchanged here.' : 'What changed here: + is new, \u2212 is gone.'));
      parts.push(h('ul', { class: 'diff' }, differences(old, now).map(([kind, line]) =>
        h('li', { class: kind }, kind ? h('span', { class: 'only-read' }, kind === 'plus' ? 'new: ' : 'gone: ') : null, bdi(line)))));
      if (old !== now) parts.push(fold('Before', () => pre(old || '(empty)')), fold('After', () => pre(now || '(empty)')));
    }
    return card('Memory, before and after', parts);
  }

  function ledgerCard(node) {
    const { first, last } = span(node);
    const early = first ? first.ledger : episode.names.map(() => 0), late = last ? last.ledger : early;
    const budget = { agent_calls: episode.head.budget[0], rollbacks: episode.head.budget[1] };
    const rows = episode.names.flatMap((name, i) => (late[i] || name in budget ? [h('tr', {}, h('th', { scope: 'row' }, name.replace(/_/g, ' ')),
      h('td', {}, String(early[i])), h('td', {}, late[i] === early[i] ? '' : `+${late[i] - early[i]}`), h('td', {}, String(late[i])),
      h('td', {}, name in budget ? `of ${budget[name]}` : ''))] : []));
    return card('Ledger at this step', h('table', { class: 'ledger' }, h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'count'), h('th', { scope: 'col' }, 'before'),
      h('th', { scope: 'col' }, 'here'), h('th', { scope: 'col' }, 'after'), h('th', { scope: 'col' }, 'budget'))), h('tbody', {}, rows)));
  }

  return { element, show };
}

// Lines that are new or gone, by the longest common subsequence; very long memories are compared as sets.
function differences(old, now) {
  const a = old ? old.split('\n') : [], b = now ? now.split('\n') : [];
  if (a.length * b.length > 400000) {
    const had = new Set(a), has = new Set(b);
    return [...a.filter((line) => !has.has(line)).map((line) => ['minus', line]), ...b.map((line) => [had.has(line) ? '' : 'plus', line])];
  }
  const w = b.length + 1, table = new Uint16Array((a.length + 1) * w);
  for (let i = a.length - 1; i >= 0; i--) for (let j = b.length - 1; j >= 0; j--) {
    table[i * w + j] = a[i] === b[j] ? table[(i + 1) * w + j + 1] + 1 : Math.max(table[(i + 1) * w + j], table[i * w + j + 1]);
  }
  const lines = [];
  let i = 0, j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) { lines.push(['', a[i]]); i++; j++; }
    else if (j >= b.length || (i < a.length && table[(i + 1) * w + j] >= table[i * w + j + 1])) lines.push(['minus', a[i++]]);
    else lines.push(['plus', b[j++]]);
  }
  return lines;
}
