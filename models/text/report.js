// Heat maps: shows the weight of the cell that is pointed at, tapped, or selected with the arrow keys.
// Its event "cell" bubbles, with the row and the column as detail.
function markCell(drawing, row, column) {
  const svg = drawing.firstElementChild, columns = svg.querySelectorAll('.columns text'), rows = svg.querySelectorAll('.rows text');
  const i = (row + rows.length) % rows.length, j = (column + columns.length) % columns.length;
  const cell = svg.querySelectorAll('.heat rect')[i * columns.length + j];
  for (const one of svg.querySelectorAll('.marked')) one.classList.remove('marked');
  for (const one of [rows[i], columns[j], cell]) one.classList.add('marked');
  Object.assign(drawing.dataset, {row: i, column: j});
  drawing.nextElementSibling.textContent = cell.textContent;
  drawing.dispatchEvent(new CustomEvent('cell', {bubbles: true, detail: {row: i, column: j}}));
}
document.addEventListener('pointerover', ({target}) => {
  if (!target.matches?.('.attune-heatmap .heat rect')) return;
  const drawing = target.closest('.drawing'), columns = drawing.querySelectorAll('.columns text').length;
  const index = [...target.parentNode.children].indexOf(target);
  markCell(drawing, Math.floor(index / columns), index % columns);
});
document.addEventListener('keydown', (event) => {
  const {dataset} = event.target, [down, right] = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]}[event.key] ?? [];
  if (down === undefined || !event.target.matches('.drawing') || !event.target.querySelector('.heat rect')) return;
  event.preventDefault();
  markCell(event.target, Number(dataset.row ?? -Math.max(down, 0)) + down, Number(dataset.column ?? -Math.max(right, 0)) + right);
});

const svgElement = (tag, attributes, ...inside) => {
  const made = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const name in attributes) made.setAttribute(name, attributes[name]);
  made.append(...inside);
  return made;
};
const element = (tag, className, ...inside) => {
  const made = Object.assign(document.createElement(tag), {className});
  made.append(...inside);
  return made;
};

/// An axis with about `count` ticks at multiples of 1, 2 or 5 times a power of ten. With `snap`, it begins and ends at ticks,
/// and begins at 0 if the lowest value is less than half of the highest.
function axisOf(values, count, snap) {
  let low = Math.min(...values), high = Math.max(...values);
  if (low === high) low -= Math.abs(low) / 10 || 1, high += Math.abs(high) / 10 || 1;
  if (snap && low > 0 && low < high / 2) low = 0;
  const raw = (high - low) / count, power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find((factor) => 1.001 * factor * power >= raw);
  if (snap) low = step * Math.floor(low / step + 1e-6), high = step * Math.ceil(high / step - 1e-6);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-6); i <= high / step + 1e-6; ++i) ticks.push(Number((i * step).toPrecision(12)));
  return {low, ticks, at: (value) => (value - low) / (high - low)};
}

/// A line chart. `series`: {name, points: [[x, y], ...]}; x values: those of the axis, from 0.
function lineChart({title, unit, log}, xUnit, xValues, series) {
  const scaled = series.map(({name, points}) => (
    {name, points: points.map(([x, y]) => [x, log ? Math.log10(y) : y]).filter(([, y]) => Number.isFinite(y))}));
  const values = scaled.flatMap(({points}) => points.map(([, y]) => y));
  const across = axisOf([0, ...xValues], 6, false), up = axisOf(values.length ? values : [0, 1], 5, true);
  const label = (y) => String(Number(log ? (10 ** y).toPrecision(2) : y.toPrecision(6)));
  const left = 76, right = 456,  // the same in all charts
         top = 12, bottom = 206;
  const px = (x) => (left + (right - left) * across.at(x)).toFixed(1), py = (y) => (bottom - (bottom - top) * up.at(y)).toFixed(1);
  const text = (x, y, anchor, content) => svgElement('text', {x, y, 'text-anchor': anchor}, content);
  const svg = svgElement('svg', {class: 'attune-chart', viewBox: '0 0 480 236', role: 'img', 'aria-label': `Line chart: ${title}, ${unit}`});
  svg.append(
      ...up.ticks.flatMap((tick) => [svgElement('path', {class: 'grid', d: `M${left} ${py(tick)}H${right}`}),
                                     text(left - 8, Number(py(tick)) + 5, 'end', label(tick))]),
      ...across.ticks.map((tick) => text(px(tick), bottom + 22, 'middle', String(tick))),
      svgElement('path', {class: 'axis', d: `M${left} ${bottom}H${right}`}));
  const legend = element('p', 'legend');
  scaled.forEach(({name, points}, i) => {
    const look = {class: `series-${i % 6 + 1}`, 'stroke-dasharray': ['none', '7 4', '2 3'][Math.floor(i / 6) % 3]};
    const line = svgElement('path', {class: 'line', d: points.map(([x, y], n) => `${n ? 'L' : 'M'}${px(x)} ${py(y)}`).join('')});
    const dots = points.length > 40 ? [] : points.map(([x, y]) => svgElement('circle', {cx: px(x), cy: py(y), r: 3},
        svgElement('title', {}, `${name}: ${label(y)} at ${x}`)));
    svg.append(svgElement('g', look, line, ...dots));
    legend.append(element('span', '', svgElement('svg', {...look, width: 22, height: 8, 'aria-hidden': true},
        svgElement('path', {class: 'line', d: 'M0 4h18'})), name));
  });
  const from = log ? 'logarithmic axis' : `axis from ${label(up.low)}`;
  return element('figure', 'chart', element('figcaption', '', element('strong', '', title), `${unit}, ${from}; by ${xUnit}`),
                 svg, scaled.length > 1 ? legend : '');
}

// Draws the logs of trainings: JSON lines in pre.log elements, with data-metric="bleu" for sentences and data-name for one of
// several. Both charts have the same x axis.
const logs = [...document.querySelectorAll('pre.log')].map(({dataset, textContent}) => (
  {run: dataset.name, lines: textContent.split('\n').filter(Boolean).map((line) => JSON.parse(line))}));
if (logs.length) {
  const first = document.querySelector('pre.log'), sentences = first.dataset.metric === 'bleu';
  const all = logs.flatMap(({lines}) => lines), several = logs.length > 1;
  const curves = (field, name, scale = 1) => logs.map(({run, lines}) => ({
    name: several ? run : name, points: lines.filter((line) => Number.isFinite(line[field])).map((line) => [line.step, scale * line[field]])}));
  const chart = (about, series) => lineChart(about, 'update', all.map(({step}) => step), series.filter(({points}) => points.length));
  first.closest('details').before(element('div', 'figures',
      sentences ? chart({title: 'Validation', unit: 'BLEU'}, curves('bleu', 'BLEU'))
                : chart({title: 'Validation', unit: 'exact match, percent'}, curves('exact_match', 'exact match', 100)),
      chart({title: 'Loss', unit: 'cross-entropy per token', log: !sentences},
            [...curves('loss', 'training'), ...(several ? [] : curves('valid_loss', 'validation'))])));
}
