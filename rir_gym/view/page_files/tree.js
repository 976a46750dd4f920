// The picture of one episode: steps to the right, a lane for each branch; what the agent did stands above a line, what the recovery
// did below it. Elements are made once for a zoom; choosing a node moves two of them.
let serial = 0;

function makeTree(episode, onChoose, widest) {
  const { nodes, backs, branches } = episode;
  const id = `tree-${++serial}`;
  const stage = h('div', { class: 'stage', role: 'tree', tabindex: 0, 'aria-label': treeLabel(episode), 'aria-activedescendant': `${id}-0` });
  const map = s('svg', { class: 'minimap hidden', preserveAspectRatio: 'none', 'aria-hidden': 'true' });
  const element = h('div', {}, map, stage);
  const state = { dx: 0, labels: null, chosen: 0, found: new Set(), fitted: true };
  let svg, halo, cursor, dots, place, window_, ruler;
  const longest = [true, false].map((live) => nodes.reduce((most, node) => (isLive(node) !== live || node.action === null ? most : Math.max(most, oneLine(episode.text(node.action), 18).length)), 4));

  function measures() {
    const room = Math.max(240, stage.clientWidth || 900) - 96;
    const fit = room / Math.max(1, episode.steps, widest || 0);
    const labels = state.labels === null ? episode.lanes <= 12 : state.labels;
    if (!state.dx) state.dx = Math.min(46, Math.max(labels ? 18 : 15, fit));
    const shown = labels && state.dx >= 13;
    const [above, below] = shown ? longest.map((count) => 12 + count * 4.3) : [6, 6];
    const lane = shown ? below + 46 : episode.lanes > 24 ? 36 : 46;
    return { dx: state.dx, lane, shown, top: above + 30, left: 34, r: Math.max(1.6, Math.min(4.6, state.dx / 3)) };
  }

  function draw() {
    const m = measures();
    const x = (node) => m.left + node.step * m.dx, y = (node) => m.top + node.lane * m.lane;
    place = (node) => [x(node), y(node)];
    const width = m.left + episode.steps * m.dx + 60, height = m.top + (episode.lanes - 1) * m.lane + 58;
    const bottom = m.top + (episode.lanes - 1) * m.lane + 40;
    svg = s('svg', { width, height, viewBox: `0 0 ${width} ${height}`, 'aria-hidden': 'false', role: 'group' });
    const axis = s('g', { class: 'axis', 'aria-hidden': 'true' });
    ruler = s('g', { class: 'axis', 'aria-hidden': 'true' }, s('rect', { class: 'ground', x: 0, y: 0, width, height: 17 }));
    const every = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].find((n) => n * m.dx >= 44) || 2000;
    for (let step = 0; step <= episode.steps; step += every) {
      const at = m.left + step * m.dx;
      axis.append(s('line', { x1: at, x2: at, y1: 18, y2: bottom }));
      ruler.append(s('text', { x: at, y: 12, 'text-anchor': 'middle' }, step === 0 ? 'step 0' : String(step)));
    }
    svg.append(axis);
    halo = s('path', { class: 'path' });
    svg.append(halo);

    for (const wanted of [false, true]) {
      branches.forEach(([, fork, first, last], number) => {
        if ((number === 0) !== wanted) return;
        const a = nodes[first], b = nodes[last];
        let d;
        if (fork === null) d = `M${x(a)} ${y(a)}H${x(b)}`;
        else d = `${bend(place(nodes[fork]), place(a))}H${x(b)}`;
        svg.append(s('path', { class: wanted ? 'line live' : 'line', d }));
        if (!wanted && m.dx >= 8) svg.append(s('text', { class: 'branch-number', x: m.dx < 26 ? x(a) - m.r - 2 : x(a) - m.dx / 2 - 5, y: y(a) + (m.dx < 26 ? 14 : -5), 'text-anchor': 'end' }, String(number)));
      });
    }

    const depths = s('g', { 'aria-hidden': 'true' });
    for (const back of backs) {
      const from = nodes[back.source], to = nodes[back.target];
      const [fx, fy] = place(from), [tx, ty] = place(to);
      const low = fy + Math.min(32, m.lane * 0.68), r = Math.min(9, m.dx * 0.9);
      let d, words, middle = low;
      const tip = ty + m.r + 3;
      if (back.depth !== null) {
        words = `\u21a9 k=${back.depth}`;
        // drawn from its head, so that the dashes of two that come back to one place fall together
        const gap = fx - tx > 56 ? `H${(fx + tx) / 2 - words.length * 3.4}M${(fx + tx) / 2 + words.length * 3.4} ${low}` : '';
        d = `M${tx} ${tip + 4}V${low - r}Q${tx} ${low} ${tx + r} ${low}${gap}H${fx - r}Q${fx} ${low} ${fx} ${low - r}V${fy + m.r}`;
      } else {
        const mid = Math.max(fy, ty) + m.lane * 0.5;
        middle = (fy + ty + 6 * mid) / 8;
        d = `M${fx} ${fy + m.r}C${fx} ${mid} ${tx} ${mid} ${tx} ${tip + 4}`;
        words = '\u21aa';
      }
      const up = ty <= fy || back.depth !== null;
      svg.append(s('path', { class: 'back', d }), s('path', { class: 'arrow', d: up ? `M${tx} ${tip}l3.6 7h-7.2Z` : `M${tx} ${ty - m.r - 3}l3.6 -7h-7.2Z` }));
      if (m.dx >= 5 || fx - tx > 56) {
        const wide = fx - tx > 56 || back.depth === null;
        depths.append(s('text', { class: 'depth', x: wide ? (fx + tx) / 2 : fx + 9, y: wide ? middle + 4 : low - 1, 'text-anchor': wide ? 'middle' : 'start' }, words));
      }
    }

    dots = [];
    const marks = s('g', { 'aria-hidden': 'true' }), labels = s('g', { 'aria-hidden': 'true' }), circles = s('g', {});
    for (const node of nodes) {
      const [nx, ny] = place(node), live = isLive(node);
      const dot = s('circle', { class: live ? 'dot live' : 'dot', id: `${id}-${node.id}`, 'data-node': node.id, cx: nx, cy: ny, r: m.r, role: 'treeitem',
        'aria-level': node.step + 1, 'aria-selected': 'false', 'aria-label': nodeLabel(episode, node) });
      if (state.found.has(node.id)) dot.classList.add('found');
      circles.append(dot);
      dots.push(dot);
      if (node.flags & FLAGS.committed) marks.append(...shape('committed', nx, ny));
      const end = endOf(episode, node);
      if (end) marks.append(...shape(end, nx + (end === 'stopped' ? 16 : 18), ny));
      const said = marksOf(node), pitch = Math.min(10, said.length > 1 ? (m.dx * 1.6) / said.length : 10);
      said.slice(0, 8).forEach((mark, i) => {
        const mx = nx + (i - (Math.min(8, said.length) - 1) / 2) * pitch;
        const far = m.r + 7 + (mark.urgency === null ? 0 : mark.urgency * Math.min(9, m.lane / 4));
        if (mark.urgency !== null) marks.append(s('path', { class: 'mark', d: `M${mx} ${ny + m.r}V${ny + far}` }));
        marks.append(...shape(mark.kind, mx, ny + far + 3));
      });
      if (m.shown && node.action !== null) {
        labels.append(s('text', { class: live ? 'label live' : 'label', transform: `translate(${nx + 1} ${ny - m.r - 5}) rotate(-42)` }, oneLine(episode.text(node.action), 18)));
      }
    }
    cursor = s('circle', { class: 'chosen', r: m.r + 4.5 });
    svg.append(labels, circles, marks, depths, cursor, ruler);
    stage.replaceChildren(svg);
    drawMap(width, height, m);
    mark();
  }

  function bend([ax, ay], [bx, by]) {
    const turn = Math.min(10, (bx - ax) / 2, (by - ay) / 2), mid = ax + (bx - ax) * 0.5;
    return `M${ax} ${ay}Q${mid} ${ay} ${mid} ${ay + turn}V${by - turn}Q${mid} ${by} ${bx} ${by}`;
  }

  function drawMap(width, height, m) {
    const over = width > stage.clientWidth + 4 && stage.clientWidth > 0;
    map.classList.toggle('hidden', !over);
    if (!over) return;
    map.setAttribute('viewBox', `0 0 ${width} ${height}`);
    const lines = branches.map(([, fork, first, last], number) => {
      const [ax, ay] = place(nodes[first]), [bx] = place(nodes[last]);
      return s('path', { class: number ? 'line' : 'line live', d: `M${ax - m.dx} ${ay}H${Math.max(bx, ax + m.dx)}`, 'vector-effect': 'non-scaling-stroke' });
    });
    window_ = s('rect', { class: 'window', y: 0, height, 'vector-effect': 'non-scaling-stroke' });
    map.replaceChildren(...lines.reverse(), window_);
    follow();
  }

  function follow() {
    ruler.setAttribute('transform', `translate(0 ${stage.scrollTop})`);
    if (!window_) return;
    window_.setAttribute('x', stage.scrollLeft);
    window_.setAttribute('width', stage.clientWidth);
    window_.setAttribute('y', stage.scrollTop);
    window_.setAttribute('height', Math.min(stage.clientHeight, Number(svg.getAttribute('height'))));
  }

  function mark() {
    const node = nodes[state.chosen], [nx, ny] = place(node);
    cursor.setAttribute('cx', nx);
    cursor.setAttribute('cy', ny);
    let d = '', at = node;
    while (at.parent !== null) {
      const parent = nodes[at.parent];
      d += at.lane === parent.lane ? `M${place(parent)[0]} ${place(parent)[1]}H${place(at)[0]}` : bend(place(parent), place(at));
      at = parent;
    }
    halo.setAttribute('d', d);
    stage.setAttribute('aria-activedescendant', `${id}-${node.id}`);
  }

  function choose(wanted) {
    const { scrollLeft, scrollTop, clientWidth, clientHeight } = stage; // read before anything is written
    dots[state.chosen].setAttribute('aria-selected', 'false');
    state.chosen = wanted;
    dots[wanted].setAttribute('aria-selected', 'true');
    mark();
    const [nx, ny] = place(nodes[wanted]), edge = 60;
    if (nx < scrollLeft + edge) stage.scrollLeft = nx - clientWidth / 3;
    else if (nx > scrollLeft + clientWidth - edge) stage.scrollLeft = nx - (2 * clientWidth) / 3;
    if (ny < scrollTop + edge) stage.scrollTop = ny - 110;
    else if (ny > scrollTop + clientHeight - edge) stage.scrollTop = ny - clientHeight + 110;
  }

  function zoom(factor) {
    const m = measures(), middle = (stage.scrollLeft + stage.clientWidth / 2 - m.left) / m.dx;
    if (factor === 0) state.dx = Math.max(2, Math.min(46, (stage.clientWidth - 100) / Math.max(1, episode.steps)));
    else state.dx = Math.max(2, Math.min(120, state.dx * factor));
    draw();
    stage.scrollLeft = m.left + middle * state.dx - stage.clientWidth / 2;
    choose(state.chosen);
    follow();
  }

  // The node nearest to a click: a dot of four pixels is no target for a finger.
  stage.addEventListener('click', (event) => {
    const box = svg.getBoundingClientRect(), px = event.clientX - box.left, py = event.clientY - box.top;
    let best = null, least = 22 * 22;
    for (const node of nodes) {
      const [nx, ny] = place(node), far = (nx - px) ** 2 + (ny - py) ** 2;
      if (far < least) { best = node; least = far; }
    }
    if (best) onChoose(best.id);
  });
  stage.addEventListener('scroll', follow, { passive: true });
  const drag = (event) => {
    const box = map.getBoundingClientRect();
    stage.scrollLeft = ((event.clientX - box.left) / box.width) * Number(svg.getAttribute('width')) - stage.clientWidth / 2;
    stage.scrollTop = ((event.clientY - box.top) / box.height) * Number(svg.getAttribute('height')) - stage.clientHeight / 2;
  };
  map.addEventListener('pointerdown', (event) => { map.setPointerCapture(event.pointerId); drag(event); });
  map.addEventListener('pointermove', (event) => { if (event.buttons) drag(event); });

  return {
    element, stage, draw, choose, zoom,
    labels() { const now = measures(); state.labels = !(state.labels === null ? episode.lanes <= 12 : state.labels); if (state.labels && now.dx < 13) state.dx = 18; draw(); choose(state.chosen); },
    find(ids) { for (const one of state.found) dots[one].classList.remove('found'); state.found = new Set(ids); for (const one of ids) dots[one].classList.add('found'); },
    resize() { if (window_) drawMap(Number(svg.getAttribute('width')), Number(svg.getAttribute('height')), measures()); },
  };
}

function treeLabel(episode) {
  const count = episode.branches.length - 1;
  return `Tree of the episode: ${episode.nodes.length} nodes, ${count} abandoned ${count === 1 ? 'branch' : 'branches'}, ${episode.backs.length} rollbacks. Arrow keys move.`;
}

function nodeLabel(episode, node) {
  const parts = [`step ${node.step}`, isLive(node) ? 'surviving branch' : `abandoned branch ${node.branch}`];
  if (node.action !== null) parts.push(oneLine(episode.text(node.action), 60));
  for (const mark of marksOf(node)) parts.push(WORDS[mark.kind]);
  if (node.flags & FLAGS.committed) parts.push('committed');
  const end = endOf(episode, node);
  if (end) parts.push(WORDS[end]);
  return parts.join(', ');
}

function legend(episode) {
  const kinds = new Set();
  for (const node of episode.nodes) {
    for (const mark of marksOf(node)) kinds.add(mark.kind);
    const end = endOf(episode, node);
    if (end) kinds.add(end);
    if (node.flags & FLAGS.committed) kinds.add('committed');
  }
  const item = (words, ...parts) => h('li', {}, s('svg', { width: 22, height: 20, viewBox: '0 0 22 20', 'aria-hidden': 'true' }, ...parts), words);
  const line = (live) => item(live ? 'surviving branch' : 'abandoned branch', s('path', { class: live ? 'line live' : 'line', d: 'M0 10H22' }),
    s('circle', { class: live ? 'dot live' : 'dot', cx: 11, cy: 10, r: 4 }));
  const items = [line(true)];
  if (episode.branches.length > 1) items.push(line(false));
  if (episode.backs.length) items.push(item('rollback, k steps back', s('path', { class: 'back', d: 'M20 3V8Q20 14 14 14H9Q4 14 4 10' }), s('path', { class: 'arrow', d: 'M4 3l3.6 7h-7.2Z' })));
  for (const kind of Object.keys(SHAPES)) if (kinds.has(kind)) items.push(item(WORDS[kind], ...shape(kind, 11, 10)));
  if (kinds.has('continue') || kinds.has('rollback') || kinds.has('refused')) items.push(h('li', {}, 'longer stem: more urgent'));
  return h('ul', { class: 'legend', 'aria-label': 'What the marks mean' }, items);
}
