// What the page shows of what worker.js says.
const $ = (id) => document.getElementById(id);
const worker = new Worker(URL.createObjectURL(new Blob([$('worker').textContent], {type: 'text/javascript'})));
let running = false, curve = [];

/// An element with text, never markup, in it.
function element(tag, className, text = '', inside = []) {
  const made = Object.assign(document.createElement(tag), {className, textContent: text});
  made.append(...inside);
  return made;
}

/// Attention as a picture: what is read across, what is written down. A cell that is pointed at, or chosen by the arrow
/// keys, says its weight.
function heatMap({source, output, weights, probability}) {
  const word = output.join(''), read = source.join('');
  const hint = `probability ${probability.toFixed(3)}`, line = element('figcaption', '', '');
  const grid = element('div', 'map');
  grid.style.gridTemplateColumns = `repeat(${source.length + 1}, 1fr)`;
  grid.style.maxWidth = `${1.6 * (source.length + 1)}rem`;
  const labels = source.map((c) => element('b', '', c === ' ' ? '␣' : c));
  const rows = output.map((c) => element('b', '', c));
  grid.append(element('i', ''), ...labels);
  const cells = [];
  output.forEach((c, i) => grid.append(rows[i], ...source.map((_, j) => {
    const cell = element('i', '');
    cell.style.setProperty('--weight', weights[i][j]);
    cell.onpointerenter = () => choose(i, j);
    cells.push(cell);
    return cell;
  })));
  let chosen;
  function choose(i, j) {
    for (const marked of grid.querySelectorAll('.marked')) marked.classList.remove('marked');
    chosen = [i, j];
    for (const one of [rows[i], labels[j], cells[i * source.length + j]]) one.classList.add('marked');
    line.lastChild.textContent = `“${output[i]}” reads “${source[j]}” with weight ${weights[i][j].toFixed(3)}`;
  }
  grid.onkeydown = (event) => {
    const [down, right] = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]}[event.key] ?? [];
    if (down === undefined) return;
    event.preventDefault();
    const [i, j] = chosen ?? [-down, -right];
    choose((i + down + output.length) % output.length, (j + right + source.length) % source.length);
  };
  grid.tabIndex = 0;
  grid.setAttribute('role', 'application');
  grid.setAttribute('aria-label', `Attention weights for ${read}, written as ${word}; arrow keys choose one`);
  line.append(element('strong', '', `${read} → ${word}`), element('br', ''), element('span', '', hint));
  line.lastChild.setAttribute('aria-live', 'polite');
  return element('figure', '', '', [line, grid]);
}

/// Loss and accuracy over the updates.
function drawCurve(updates) {
  const x = (step) => (step / updates) * 300, top = Math.max(...curve.map(({loss}) => loss));
  const points = (list) => list.map(([step, y]) => `${x(step).toFixed(1)},${(100 - 96 * y).toFixed(1)}`).join(' ');
  $('loss').setAttribute('points', points(curve.map(({step, loss}) => [step, loss / top])));
  $('accuracy').setAttribute('points', points(curve.filter((at) => at.evaluated).map((at) => [at.step, at.evaluated.exact])));
}

function show(news) {
  curve.push(news);
  drawCurve(news.updates);
  const rate = news.step / news.seconds, left = Math.round((news.updates - news.step) / rate);
  const latest = curve.findLast((at) => at.evaluated)?.evaluated;
  $('progress').value = news.step / news.updates;
  $('status').textContent = `update ${news.step} of ${news.updates}, ${rate.toFixed(1)} a second` +
      (news.done ? `, ${Math.round(news.seconds)} s in all` : `, ${left} s left`) + `; loss ${news.loss.toFixed(3)}` +
      (latest ? `; ${(100 * latest.exact).toFixed(1)} % of ${latest.of} dates it never saw are exactly right` : '');
  if (news.maps) $('maps').replaceChildren(...news.maps.map(heatMap));
  $('date').disabled = $('write').disabled = !latest;
  if (news.done) setRunning(false);
}

function setRunning(on) {
  running = on;
  $('start').textContent = on ? 'Pause' : curve.at(-1)?.done ? 'Trained' : curve.length ? 'Go on' : 'Train';
  $('start').disabled = !on && Boolean(curve.at(-1)?.done);
}

/// Of a new model.
function reset(parameters) {
  curve = [];
  drawCurve(1);
  setRunning(false);
  $('progress').value = 0;
  $('date').disabled = $('write').disabled = true;
  for (const id of ['maps', 'written']) $(id).replaceChildren();
  $('status').textContent = `A model of ${parameters.toLocaleString('en')} parameters, which knows nothing yet.`;
  $('again').disabled = false;
}

$('start').onclick = () => {
  setRunning(!running);
  worker.postMessage([running ? 'train' : 'pause']);
};
$('again').onclick = () => worker.postMessage(['again']);
$('try').onsubmit = (event) => {
  event.preventDefault();
  worker.postMessage(['look', $('date').value]);
};
worker.onmessage = ({data: {ready, news, typed}}) => {
  if (ready) {
    reset(ready.parameters);
  } else if (news) {
    show(news);
  } else {
    $('written').replaceChildren(typed.error ? element('p', 'error', typed.error) : heatMap(typed));
  }
};
worker.onerror = (event) => $('status').textContent = `The model has stopped: ${event.message}`;
