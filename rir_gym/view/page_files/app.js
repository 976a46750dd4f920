// The page: what its address asks for, the theme, keys, help.
const nameOfPlace = h('span', { class: 'where' });
const back = h('button', { type: 'button', class: 'hidden', onclick: () => visit('') }, '\u2039 All episodes');
const theme = h('button', { type: 'button', onclick: turnTheme });
const helpButton = h('button', { type: 'button', 'aria-label': 'Keys and help', onclick: () => help.showModal() }, '?');
const main = h('main', {});
const help = h('dialog', { 'aria-label': 'Keys' }, h('h2', {}, 'Keys'), h('dl', { class: 'keys' }, [
  ['\u2190 \u2192', 'along a branch'], ['\u2191 \u2193', 'between siblings and branches'], ['j k', 'later and earlier, in the order of real steps'], ['r R', 'next and previous rollback'],
  ['Home End', 'first node, end of the surviving branch'], ['/', 'search; Enter: next hit'], ['n N', 'next and previous hit'], ['+ \u2212 0', 'larger, smaller, whole width'], ['l', 'actions on or off'],
  ['[ ]', 'previous and next episode'], ['Tab', 'side by side: the other episode'], ['u', 'all episodes'], ['t', 'theme: as the system, light, dark'], ['?', 'this help'],
].flatMap(([key, words]) => [h('dt', {}, key), h('dd', {}, words)])), h('form', { method: 'dialog' }, h('button', {}, 'Close')));
document.body.append(h('header', { class: 'top' }, h('span', { class: 'name' }, 'rir-gym'), nameOfPlace, h('div', { class: 'tools' }, back, theme, helpButton)), main, help);

// --- theme ---

const dark = matchMedia('(prefers-color-scheme: dark)');
let wish = 'system';
try { wish = localStorage.getItem('rir-gym-theme') || 'system'; } catch { /* a page from disk may have no storage */ }
function setTheme() {
  document.documentElement.dataset.theme = wish === 'system' ? (dark.matches ? 'dark' : 'light') : wish;
  theme.textContent = { system: 'Theme: system', light: 'Theme: light', dark: 'Theme: dark' }[wish];
}
function turnTheme() {
  wish = { system: 'light', light: 'dark', dark: 'system' }[wish] || 'system';
  try { localStorage.setItem('rir-gym-theme', wish); } catch { /* as above */ }
  setTheme();
}
dark.addEventListener('change', setTheme);
setTheme();

// --- what the address asks for: "#", "#3", "#3.17" (episode and node), "#3.17+5.0" ---

let shownEpisodes = [], active = 0, list = null;
const address = () => '#' + shownEpisodes.map((one) => `${one.number}.${one.chosen()}`).join('+');
const visit = (hash) => { if (location.hash.replace(/^#/, '') === hash) route(); else location.hash = hash; };

function asked() {
  const parts = location.hash.replace(/^#/, '').split('+').slice(0, 2).map((part) => part.split('.').map(Number));
  return location.hash.length > 1 && parts.every(([number]) => Number.isInteger(number) && number >= 0 && number < index.episodes.length) ? parts : [];
}

function route() {
  const parts = asked();
  if (parts.length && parts.length === shownEpisodes.length && parts.every(([number], i) => number === shownEpisodes[i].number)) {
    parts.forEach(([, node], i) => { if (node !== shownEpisodes[i].chosen() && shownEpisodes[i].episode.nodes[node]) shownEpisodes[i].choose(node, true); });
    return;
  }
  clearTimeout(pending);
  shownEpisodes = [];
  active = 0;
  main.replaceChildren();
  back.classList.toggle('hidden', !parts.length || index.episodes.length === 1);
  if (!parts.length) {
    list = makeList((number) => visit(String(number)), (two) => visit(two.join('+')));
    main.append(list.element);
    nameOfPlace.textContent = visible(index.title);
    return;
  }
  shownEpisodes = parts.map(([number]) => makeView(number, moved, Math.max(...parts.map(([one]) => block(one).steps))));
  nameOfPlace.textContent = `${visible(index.title)}, episode${parts.length > 1 ? 's' : ''} ${parts.map(([number]) => number).join(' and ')}`;
  if (parts.length === 2) main.append(sameness(...shownEpisodes), h('div', { class: 'pair' }, shownEpisodes.map((one) => one.element)));
  else main.append(shownEpisodes[0].element);
  shownEpisodes.forEach((one, i) => {
    const node = parts[i][1];
    one.draw(one.episode.nodes[node] ? node : 0);
    one.element.addEventListener('focusin', () => { active = i; });
  });
  scrollTo(0, 0);
}

// The address follows when moving has paused: browsers refuse hundreds of changes in a row.
let pending = 0;
function moved() {
  clearTimeout(pending);
  pending = setTimeout(() => { if (shownEpisodes.length) history.replaceState(null, '', address()); }, 200);
}

// Where two episodes of one seed part: the first step of their surviving branches that differs.
function sameness(one, other) {
  const branch = ({ episode }) => { const path = []; for (let at = episode.last; at !== null; at = episode.nodes[at].parent) path.unshift(episode.nodes[at]); return path; };
  const a = branch(one), b = branch(other), text = (view, id) => (id === null ? null : view.episode.text(id));
  let same = 0;
  while (same < a.length && same < b.length && text(one, a[same].action) === text(other, b[same].action) && text(one, a[same].observation) === text(other, b[same].observation)) same += 1;
  if (one.episode.head.seed !== other.episode.head.seed || one.episode.head.env !== other.episode.head.env || one.episode.head.kwargs !== other.episode.head.kwargs) return h('p', { class: 'same' }, 'These two are not of one environment and seed.');
  if (same === a.length && same === b.length) return h('p', { class: 'same' }, 'The surviving branches are the same.');
  const words = same === 0 ? 'The first observations differ already. ' : `The surviving branches are the same up to step ${same - 1}. `;
  return h('p', { class: 'same' }, words, h('button', { class: 'go', type: 'button', onclick: () => { one.choose((a[same] ?? a[a.length - 1]).id); other.choose((b[same] ?? b[b.length - 1]).id); } }, 'Show the first difference'));
}

addEventListener('hashchange', route);
addEventListener('resize', () => shownEpisodes.forEach((one) => one.tree.resize()));
addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
  if (event.target.closest('input, select, textarea')) return;
  const name = event.key;
  if (event.target.closest('button, summary') && (name === 'Enter' || name === ' ')) return;
  if (name === '?') help.showModal();
  else if (name === 't') turnTheme();
  else if (!shownEpisodes.length) { if (name !== '/') return; list.first().focus(); }
  else if (name === 'u' && index.episodes.length > 1) visit('');
  else if ((name === '[' || name === ']') && shownEpisodes.length === 1) {
    const next = shownEpisodes[0].number + (name === ']' ? 1 : -1);
    if (next >= 0 && next < index.episodes.length) visit(String(next));
  } else if (!shownEpisodes[active].key(name)) return;
  event.preventDefault();
});

if (!asked().length && index.opened.length) history.replaceState(null, '', '#' + index.opened.join('+'));
else if (!asked().length && index.episodes.length === 1) history.replaceState(null, '', '#0');
route();
document.body.getBoundingClientRect(); // what was built is laid out, too, when the page says that it is ready
document.documentElement.dataset.ready = String(Math.round(performance.now() * 10) / 10);
