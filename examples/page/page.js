// User interface of the page. Exchanges messages with worker.js.
const $ = (selector, inside = document) => inside.querySelector(selector);
const worker = new Worker(URL.createObjectURL(new Blob([$('#worker').textContent], {type: 'text/javascript'})));
const names = ['first', 'second'];  // CSS classes of the models

/// An element with text content (not markup).
function element(tag, className, text = '', inside = []) {
  const made = Object.assign(document.createElement(tag), {className, textContent: text});
  made.append(...inside);
  return made;
}

/// A slider from 0.
function range(label, {max, step, value, disabled = false}) {
  const made = Object.assign(document.createElement('input'), {type: 'range', min: 0, max, step, value, disabled});
  made.setAttribute('aria-label', label);
  return made;
}

const visible = (c) => c === ' ' ? '␣' : c;
/// Separator of tokens: none between characters.
const between = (tokens) => tokens.some((token) => token.length > 2) ? ' ' : '';

// ---- Heat maps

/// Heat map of attention: rows are output tokens, columns input tokens. Pointing at a cell, or selecting it with the arrow keys,
/// shows its weight.
function heatMap(title, {line: read, text, source, steps, beam: [{written: output, probability}]}) {
  const attends = steps[0].weights !== undefined, words = between([...source, ...output]) !== '';
  const line = element('figcaption', '', '', [element('strong', '', `${read} → ${text}`), element('br', '')]);
  line.append(element('span', '', `${title}: probability ${probability.toFixed(3)}`));
  if (!attends) return element('figure', '', '', [line]);
  const weight = (i, j) => steps[i].weights[j];
  const grid = element('div', words ? 'map words' : 'map');
  grid.style.gridTemplateColumns = words ? `auto repeat(${source.length}, minmax(0, 1.6rem))` : `repeat(${source.length + 1}, 1fr)`;
  if (!words) grid.style.maxWidth = `${1.6 * (source.length + 1)}rem`;
  const labels = source.map((c) => element('b', 'above', visible(c)));
  const rows = output.map((c) => element('b', '', c));
  grid.append(element('i', ''), ...labels);
  const cells = output.map((_, i) => source.map((_, j) => {
    const cell = element('i', '');
    cell.style.setProperty('--weight', weight(i, j));
    cell.onpointerenter = () => choose(i, j);
    return cell;
  }));
  cells.forEach((row, i) => grid.append(rows[i], ...row));
  let chosen;
  function choose(i, j) {
    for (const marked of grid.querySelectorAll('.marked')) marked.classList.remove('marked');
    chosen = [i, j];
    for (const one of [rows[i], labels[j], cells[i][j]]) one.classList.add('marked');
    line.lastChild.textContent = `“${output[i]}” attends to “${source[j]}” with weight ${weight(i, j).toFixed(3)}`;
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
  grid.setAttribute('aria-label', `Attention weights for ${read}, converted to ${text}; arrow keys select a cell`);
  line.lastChild.setAttribute('aria-live', 'polite');
  return element('figure', '', '', [line, grid]);
}

// ---- Charts

/// Line chart of [x, y] points, x from 0 to `right`, y from 0 to 1. Lines with a name get a legend entry.
function drawChart(place, right, unit, what, lines) {
  const make = (tag, attributes, text = '') => {
    const made = document.createElementNS('http://www.w3.org/2000/svg', tag);
    for (const name in attributes) made.setAttribute(name, attributes[name]);
    made.textContent = text;
    return made;
  };
  const svg = make('svg', {viewBox: '0 0 400 150', role: 'img', 'aria-label': what});
  const x = (value) => 40 + 350 * value / right, y = (value) => 125 - 115 * value;
  svg.append(make('polyline', {points: '40,10 40,125 390,125', class: 'axes'}));
  for (const share of [0, .5, 1])
    svg.append(make('text', {x: 36, y: y(share) + 4, 'text-anchor': 'end'}, `${100 * share} %`),
               make('text', {x: x(share * right), y: 140, 'text-anchor': share === 1 ? 'end' : 'middle'}, share * right));
  svg.append(make('text', {x: x(right * .75), y: 140, 'text-anchor': 'middle'}, unit));
  for (const {points, style} of lines)
    svg.append(make('polyline', {points: points.map((at) => `${x(at[0]).toFixed(1)},${y(at[1]).toFixed(1)}`).join(' '), class: style}));
  place.replaceChildren(element('p', 'soft', what), svg, ...lines.filter(({name}) => name).map(
    ({name, style}) => element('div', style, `— ${name}`)));
}

function allowTrying(on) {
  $('#date').disabled = $('#write').disabled = !on;
}

// ---- Lessons: models that train in parallel

/// `models()` returns options and titles of the models; `draw` draws the worker's results.
function lesson(name, models, draw, began) {
  const place = $(`[data-lesson=${name}]`), start = $('.start', place), again = $('.again', place);
  const progress = $('progress', place), status = $('.status', place), label = start.textContent;
  const at = {running: false, curve: [], models: []};

  function setRunning(on) {
    if (on) for (const other of Object.values(lessons)) other.pause();
    const done = at.curve.at(-1)?.done;
    at.running = on;
    start.textContent = on ? 'Pause' : done ? 'Trained' : at.curve.length ? 'Continue' : label;
    start.disabled = Boolean(done);
  }
  at.pause = () => at.running && setRunning(false);
  at.begin = () => {
    at.models = models();
    Object.values(lessons).forEach((other) => other.pause());
    worker.postMessage(['begin', {lesson: name, models: at.models.map(({options}) => options)}]);
  };
  at.began = ({parameters, error}) => {
    at.curve = [];
    setRunning(false);
    start.disabled = Boolean(error);
    again.disabled = false;
    progress.value = 0;
    status.textContent = error ?? `${parameters.map((n) => n.toLocaleString('en')).join(' and ')} parameters, not trained yet.`;
    $('.chart', place).replaceChildren();
    began();
  };
  at.show = (news) => {
    at.curve.push(news);
    const {step, updates, seconds, done, losses} = news, rate = step / seconds;
    progress.value = step / updates;
    status.textContent = `update ${step} of ${updates}, ${rate.toFixed(1)} per second` +
        (done ? `, ${Math.round(seconds)} s in all` : `, ${Math.round((updates - step) / rate)} s left`) +
        `; loss ${losses.map((loss) => loss.toFixed(3)).join(' and ')}`;
    draw(at, news, $('.chart', place), status);
    if (done) setRunning(false);
  };
  start.onclick = () => {
    setRunning(!at.running);
    worker.postMessage(at.running ? ['train', name] : ['pause']);
  };
  again.onclick = at.begin;
  return at;
}

/// Accuracy and loss over the updates, and heat maps.
function drawDates({curve, models}, news, chart, status) {
  const evaluated = curve.filter((at) => at.evaluated), latest = evaluated.at(-1)?.evaluated;
  const top = Math.max(...curve.flatMap(({losses}) => losses));
  const what = `Accuracy on held-out dates; dotted: loss, from 0 to ${top.toFixed(1)}`;
  drawChart(chart, news.updates, 'updates', what, models.flatMap(({title}, m) => [
    {name: title, style: names[m], points: evaluated.map((at) => [at.step, at.evaluated.right[m]])},
    {style: `${names[m]} loss`, points: curve.map((at) => [at.step, at.losses[m] / top])},
  ]));
  if (latest)
    status.textContent += `; ${latest.right.map((right) => `${(100 * right).toFixed(1)} %`).join(' and ')} of ` +
        `${latest.of} held-out dates are exactly right`;
  const maps = news.maps?.flatMap((date) => date.map((looked, m) => heatMap(models[m].title, looked)));
  if (maps) $('#maps').replaceChildren(...maps);
  allowTrying(Boolean(latest));
}

/// Accuracy by length.
function drawSentences({curve, models}, news, chart) {
  const latest = curve.findLast((at) => at.evaluated)?.evaluated;
  if (!latest) return;
  const what = 'Correct words by sentence length';
  drawChart(chart, 20, 'words in a sentence', what, models.map(({title}, m) => (
    {name: title, style: names[m], points: latest.right[m].map(({length, right}) => [length, right])})));
}

/// Options and titles of the selected models.
function chosenModels() {
  return [...document.querySelectorAll('#models fieldset:not([hidden])')].map((fieldset) => {
    const selects = [...fieldset.querySelectorAll('select')];
    const pairs = selects.flatMap(({value}) => value.split(' ').filter(Boolean).map((pair) => pair.split('=')));
    const [attention, window, cells] = selects.map((select) => select.selectedOptions[0].textContent.split(':')[0]);
    return {options: Object.fromEntries(pairs),
            title: attention === 'none' ? `no attention, ${cells}` : `${attention}, ${window}, ${cells}`};
  });
}

const lessons = {
  dates: lesson('dates', chosenModels, drawDates, () => {
    allowTrying(false);
    for (const place of ['#maps', '#written']) $(place).replaceChildren();
  }),
  sentences: lesson('sentences', () => [
    {title: 'with attention', options: {score: 'additive'}}, {title: 'without attention', options: {model: 'encoder-decoder'}}
  ], drawSentences, () => {}),
};

for (const name of ['Model', 'Second model']) {
  const fieldset = $('#choices').content.cloneNode(true).firstElementChild;
  $('legend', fieldset).textContent = name;
  fieldset.onchange = lessons.dates.begin;
  $('#models').append(fieldset);
}
const second = $('#models').lastElementChild;
second.hidden = true;
$('[value="model=encoder-decoder"]', second).selected = true;
$('#beside').onchange = () => {
  second.hidden = !$('#beside').checked;
  lessons.dates.begin();
};

// ---- One date, step by step

const live = JSON.parse($('#live').textContent.trim() || 'null');  // {title, checkpoint}: what attune report --live adds
let tried = [];  // per model: {looked: its result, step: the decoder step shown, overruled: α set by the user}

const triedModels = () => live ? [{title: live.title}] : lessons.dates.models;

function look(model, overruled) {
  worker.postMessage(['look', {lesson: live ? 'checkpoint' : 'dates', line: $('#date').value, model, overruled}]);
  tried[model] = {...tried[model], overruled};
}

/// α with weight j set to `value` and the others rescaled to sum to 1 - value.
function moved(weights, j, value) {
  const rest = 1 - weights[j];
  return weights.map((weight, k) => k === j ? value : rest > 0 ? weight * (1 - value) / rest : (1 - value) / (weights.length - 1));
}

/// e, α and c of a step, and the most likely characters. A slider sets a weight; the decoder then continues with it.
function stepView(model) {
  const {looked: {source, beam: [{written: output}], steps}, step: i, overruled} = tried[model];
  const {e, weights, likeliest} = steps[i];
  const before = output.slice(0, i).join(between(source)), writes = output[i] ?? 'the end';
  const what = `Step ${i + 1}: ${before ? `after “${before}”, ` : ''}the model predicts “${writes}”.`;
  const view = element('div', '', '', [element('p', '', what)]);
  if (weights) {
    const global = e?.every((score) => score !== null);
    const row = (symbol, cells) => element('tr', '', '', [element('th', '', symbol), ...cells]);
    const numbers = (list, digits) => list.map((x) => element('td', '', x?.toFixed(digits) ?? '·'));
    const sliders = weights.map((weight, j) => {
      const slider = range(`Weight of ${source[j]}, position ${j + 1}`, {max: 1, step: .01, value: weight, disabled: !global});
      slider.onchange = () => look(model, [...overruled.filter(([step]) => step < i), [i, moved(weights, j, Number(slider.value))]]);
      return element('td', '', '', [slider]);
    });
    view.append(element('div', 'wide', '', [element('table', 'step', '', [
      row('', source.map((c) => element('th', '', visible(c)))),
      ...(e ? [row('e', numbers(e, 1))] : []), row('α', numbers(weights, 2)), ...(e ? [row('', sliders)] : [])])]));
    const terms = weights.map((weight, j) => [weight, j]).sort((a, b) => b[0] - a[0]).filter(([weight]) => weight >= .05);
    view.append(element('p', '', `Context: c = ${terms.map(([weight, j]) => `${weight.toFixed(2)} h(${visible(source[j])})`).join(' + ')}` +
        (terms.reduce((sum, [weight]) => sum + weight, 0) < .95 ? ' + …' : '')));
  }
  view.append(element('div', 'likeliest', '', likeliest.flatMap(([c, p]) => {
    const meter = Object.assign(document.createElement('meter'), {value: p});
    meter.setAttribute('aria-label', `Probability of ${c}`);
    return [element('span', '', c), meter, element('span', '', p.toFixed(3))];
  })));
  return view;
}

/// The hypotheses of a beam as a tree of shared prefixes.
function beamTree(beam) {
  const shared = (lines) => {
    let n = 0;
    while (n < lines[0].written.length && lines.every(({written}) => written[n] === lines[0].written[n])) ++n;
    return n;
  };
  function branches(lines, from) {
    const next = new Set(lines.map(({written}) => written[from]));
    return [...next].map((token) => {
      const group = lines.filter(({written}) => written[from] === token);
      const to = Math.max(shared(group), from), text = group[0].written.slice(from, to).join(between(group[0].written));
      if (group.length === 1 || to === from) return element('li', '', `${text || 'the end'}   ${group[0].probability.toFixed(4)}`);
      return element('li', '', text, [element('ul', '', '', branches(group, to))]);
    });
  }
  return element('ul', 'tree', '', branches(beam, 0));
}

function showTried() {
  $('#written').replaceChildren(...tried.map(({looked, step, overruled}, model) => {
    if (looked.error) return element('p', 'error', looked.error);
    const slider = range('Step of the decoder', {max: looked.steps.length - 1, step: 1, value: step});
    const view = element('div', '', '', [stepView(model)]);
    slider.oninput = () => {
      tried[model].step = Number(slider.value);
      view.replaceChildren(stepView(model));
    };
    const free = element('button', '', 'Reset to the weights of the model');
    free.onclick = () => look(model, []);
    const {title} = triedModels()[model];
    return element('section', '', '', [
      heatMap(title, looked), element('h3', '', 'Step by step'), slider, view, ...(overruled.length ? [free] : []),
      element('h3', '', 'Beam search: four hypotheses and their probabilities'), beamTree(looked.beam)]);
  }));
}

$('#try').onsubmit = (event) => {
  event.preventDefault();
  tried = [];
  triedModels().forEach((_, model) => look(model, []));
};

// ---- The worker

const heard = {
  ready: async () => {
    if (!live) return Object.values(lessons).forEach((lesson) => lesson.begin());
    const bytes = await (await unpacked(live.checkpoint)).arrayBuffer();
    worker.postMessage(['checkpoint', bytes], [bytes]);
  },
  opened: ({parameters, error}) => {
    $('#opened').textContent = error ?? `${parameters.toLocaleString('en')} parameters`;
    allowTrying(!error);
  },
  began: (value) => lessons[value.lesson].began(value),
  news: (value) => lessons[value.lesson].show(value),
  looked: (value) => {
    const {step = 0} = tried[value.model] ?? {};
    tried[value.model] = {...tried[value.model], looked: value, step: Math.min(step, (value.steps?.length ?? 1) - 1)};
    if (tried.length === triedModels().length && tried.every((one) => one.looked)) showTried();
  },
};
worker.onmessage = ({data: [name, value]}) => heard[name](value);
worker.onerror = (event) => $('.status').textContent = `The model has stopped: ${event.message}`;

if (live) {
  document.body.classList.add('live');
  document.title = $('h1').textContent = live.title;
  $('#date').value = '';
}
const unpacked = (base64) => fetch(`data:;base64,${base64}`);
unpacked($('#library').textContent.trim())
    .then(({body}) => new Response(body.pipeThrough(new DecompressionStream('gzip'))).arrayBuffer())
    .then((wasm) => worker.postMessage(['library', wasm], [wasm]));
