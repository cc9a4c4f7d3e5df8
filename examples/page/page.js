// User interface of the page. Exchanges messages with worker.js, and draws with models/text/report.js.
const $ = (selector, inside = document) => inside.querySelector(selector);
const worker = new Worker(URL.createObjectURL(new Blob([$('#worker').textContent], {type: 'text/javascript'})));
const isDates = $('#checkpoint').dataset.lesson === 'dates';  // otherwise, the page only runs the checkpoint

/// A slider from 0.
function range(label, {max, step, value, disabled = false}) {
  const made = Object.assign(document.createElement('input'), {type: 'range', min: 0, max, step, value, disabled});
  made.setAttribute('aria-label', label);
  return made;
}

/// Marks an element as a part of the data flow.
function partOf(part, made) {
  made.dataset.part = part;
  return made;
}

/// The elements that report::figure wrote.
const figures = (html) => [...document.createRange().createContextualFragment(html).children];
const visible = (c) => c === ' ' ? '␣' : c;
/// Separator of tokens: none between characters.
const between = (tokens) => tokens.some((token) => token.length > 2) ? ' ' : '';

function allowTrying(on) {
  $('#date').disabled = $('#write').disabled = !on;
  if (on) performance.mark('ready');
}

// ---- Lessons: models that train in parallel

/// `models()` returns options and titles of the models, and whether the first one has the weights of the checkpoint; `draw` draws
/// the worker's results.
function lesson(name, models, draw, began) {
  const place = $(`[data-lesson=${name}]`), start = $('.start', place), again = $('.again', place);
  const progress = $('progress', place), status = $('.status', place), label = start.textContent;
  const at = {running: false, trained: false, curve: [], models: []};

  function setRunning(on) {
    if (on) for (const other of Object.values(lessons)) other.pause();
    const done = at.curve.at(-1)?.done;
    at.running = on;
    start.textContent = on ? 'Pause' : done ? 'Trained' : at.curve.length ? 'Continue' : label;
    start.disabled = Boolean(done);
  }
  at.pause = () => at.running && setRunning(false);
  at.begin = (fromCheckpoint = true) => {
    const chosen = models();
    at.models = chosen.models;
    at.trained = fromCheckpoint && Boolean(chosen.trained);
    Object.values(lessons).forEach((other) => other.pause());
    worker.postMessage(['begin', {lesson: name, trained: at.trained, models: at.models.map(({title, options}) => ({title, ...options}))}]);
  };
  at.began = ({parameters, maps, error}) => {
    at.curve = [];
    setRunning(at.running);
    start.disabled = Boolean(error);
    again.disabled = false;
    progress.value = 0;
    status.textContent = error ?? `${parameters.map((n) => n.toLocaleString('en')).join(' and ')} parameters, ` +
        (at.trained ? 'trained with 1,200 batches of 64 dates. “Train” starts from random weights.' : 'not trained yet.');
    $('.chart-place', place).replaceChildren();
    began(at.trained, maps);
  };
  at.show = (news) => {
    at.curve.push(news);
    const {step, updates, seconds, done, losses} = news, rate = step / seconds;
    progress.value = step / updates;
    status.textContent = `update ${step} of ${updates}, ${rate.toFixed(1)} per second` +
        (done ? `, ${Math.round(seconds)} s in all` : `, ${Math.round((updates - step) / rate)} s left`) +
        `; loss ${losses.map((loss) => loss.toFixed(3)).join(' and ')}`;
    draw(at, news, $('.chart-place', place), status);
    if (done) setRunning(false);
  };
  start.onclick = () => {
    if (at.trained) at.begin(false);
    setRunning(!at.running);
    worker.postMessage(at.running ? ['train', name] : ['pause']);
  };
  again.onclick = () => at.begin(false);
  return at;
}

/// Accuracy and loss over the updates, and heat maps.
function drawDates({curve, models}, news, place, status) {
  const evaluated = curve.filter((at) => at.evaluated), latest = evaluated.at(-1)?.evaluated;
  const series = (points) => models.map(({title}, m) => ({name: title, points: points(m)}));
  place.replaceChildren(
      lineChart({title: 'Held-out dates', unit: 'exactly right, percent'}, 'update', [news.updates],
                series((m) => evaluated.map((at) => [at.step, 100 * at.evaluated.right[m]]))),
      lineChart({title: 'Loss', unit: 'cross-entropy per character', log: true}, 'update', [news.updates],
                series((m) => curve.map((at) => [at.step, at.losses[m]]))));
  if (latest)
    status.textContent += `; ${latest.right.map((right) => `${(100 * right).toFixed(1)} %`).join(' and ')} of ` +
        `${latest.of} held-out dates are exactly right`;
  if (news.maps) showMaps(news.maps);
  allowTrying(Boolean(latest));
}

function showMaps(maps) {
  $('#maps').replaceChildren(...maps.flat().flatMap(({figure}) => figures(figure)));
}

/// Accuracy by length.
function drawSentences({curve, models}, news, place) {
  const latest = curve.findLast((at) => at.evaluated)?.evaluated;
  if (latest)
    place.replaceChildren(lineChart({title: 'Sentences by length', unit: 'correct words, percent'}, 'words of a sentence', [20], models.map(
        ({title}, m) => ({name: title, points: latest.right[m].map(({length, right}) => [length, 100 * right])}))));
}

/// Options and titles of the selected models. The checkpoint is one of the first choices.
function chosenModels() {
  const fieldsets = [...document.querySelectorAll('#models fieldset:not([hidden])')];
  const models = fieldsets.map((fieldset) => {
    const selects = [...fieldset.querySelectorAll('select')];
    const pairs = selects.flatMap(({value}) => value.split(' ').filter(Boolean).map((pair) => pair.split('=')));
    const [attention, window, cells] = selects.map((select) => select.selectedOptions[0].textContent.split(':')[0]);
    return {options: Object.fromEntries(pairs),
            title: attention === 'Transformer' ? attention : attention === 'none' ? `no attention, ${cells}` : `${attention}, ${window}, ${cells}`};
  });
  return {models, trained: fieldsets.length === 1 && [...fieldsets[0].querySelectorAll('select')].every(({selectedIndex}) => selectedIndex === 0)};
}

const lessons = {
  dates: lesson('dates', chosenModels, drawDates, (trained, maps) => {
    $('#written').replaceChildren();
    showMaps(maps);
    allowTrying(trained);
    if (trained) tryOut();
  }),
  sentences: lesson('sentences', () => ({models: [
    {title: 'with attention', options: {score: 'additive'}}, {title: 'without attention', options: {model: 'encoder-decoder'}}
  ]}), drawSentences, () => {}),
};

for (const name of ['Model', 'Second model']) {
  const fieldset = $('#choices').content.cloneNode(true).firstElementChild;
  $('legend', fieldset).textContent = name;
  fieldset.onchange = () => {
    for (const other of ['window', 'cells'])  // of recurrent models
      $(`[name=${other}]`, fieldset).disabled = $('[name=attention]', fieldset).value === 'model=transformer';
    lessons.dates.begin();
  };
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

let tried = [];  // per model: {looked: its result, step: the decoder step shown, overruled: α set by the user, show: redraws}

const triedModels = () => isDates ? lessons.dates.models : [{}];

function look(model, overruled) {
  worker.postMessage(['look', {lesson: isDates ? 'dates' : 'checkpoint', line: $('#date').value, model, overruled}]);
  tried[model] = {...tried[model], overruled};
}

function tryOut() {
  tried = [];
  triedModels().forEach((_, model) => look(model, []));
}

/// α with weight j set to `value` and the others rescaled to sum to 1 - value.
function moved(weights, j, value) {
  const rest = 1 - weights[j];
  return weights.map((weight, k) => k === j ? value : rest > 0 ? weight * (1 - value) / rest : (1 - value) / (weights.length - 1));
}

/// A picture of the data flow of a step. `told`: what each part does in this step.
function flowOf(told) {
  const parts = {decoder: 'decoder: state sᵢ, prediction yᵢ', context: 'context cᵢ = Σⱼ αᵢⱼ hⱼ', softmax: 'softmax: weights αᵢⱼ',
                 score: 'score eᵢⱼ of sᵢ₋₁ and hⱼ', annotations: 'annotations hⱼ', encoder: 'encoder: reads both ways'};
  const svg = svgElement('svg', {class: 'flow', viewBox: '0 0 360 330', role: 'group', 'aria-label': 'Data flow of this step'});
  const arrow = (d) => svgElement('path', {d, 'marker-end': 'url(#head)'});
  svg.append(svgElement('marker', {id: 'head', viewBox: '0 0 8 8', refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: 'auto'},
                        svgElement('path', {d: 'M1 1L7 4L1 7'})),
             arrow('M50 242H24V78H48'), arrow('M310 22H338V186H312'), svgElement('text', {x: 324, y: 110}, 'sᵢ₋₁'),
             svgElement('text', {x: 36, y: 166}, 'hⱼ'));
  Object.entries(parts).forEach(([part, name], i) => {
    const y = 2 + 56 * i;
    if (i) svg.append(arrow(`M180 ${y}V${y - 14}`));
    svg.append(partOf(part, svgElement('g', {tabindex: 0}, svgElement('rect', {x: 50, y, width: 260, height: 42, rx: 8}),
                                       svgElement('text', {x: 180, y: y + 18}, name), svgElement('text', {x: 180, y: y + 35, class: 'told'}, told[part] ?? ''))));
  });
  return svg;
}

/// The data flow of a step: e, α and c, and the most likely characters. A slider sets a weight; the decoder then continues with it.
function stepView(model) {
  const {looked: {source, beam: [{written: output}], steps}, step: i, overruled} = tried[model];
  const {e, weights, likeliest} = steps[i];
  const before = output.slice(0, i).join(between(source)), writes = output[i] ?? 'the end';
  const what = `Step ${i + 1}: ${before ? `after “${before}”, ` : ''}the model predicts “${writes}”.`;
  const view = element('div', 'row'), numbers = element('div', '', element('p', '', what));
  if (weights) {
    const global = e?.every((score) => score !== null);
    const row = (part, symbol, cells) => partOf(part, element('tr', '', element('th', '', symbol), ...cells));
    const rounded = (list, digits) => list.map((x) => element('td', '', x?.toFixed(digits) ?? '·'));
    const sliders = weights.map((weight, j) => {
      const slider = range(`Weight of ${source[j]}, position ${j + 1}`, {max: 1, step: .01, value: weight, disabled: !global});
      slider.onchange = () => look(model, [...overruled.filter(([step]) => step < i), [i, moved(weights, j, Number(slider.value))]]);
      return element('td', '', slider);
    });
    numbers.append(element('div', 'wide', element('table', 'step',
      row('encoder', '', source.map((c) => element('th', '', visible(c)))),
      ...(e ? [row('score', 'e', rounded(e, 1))] : []), row('softmax', 'α', rounded(weights, 2)), ...(e ? [row('softmax', '', sliders)] : []))));
    const terms = weights.map((weight, j) => [weight, j]).sort((a, b) => b[0] - a[0]).filter(([weight]) => weight >= .05);
    const sum = terms.map(([weight, j]) => `${weight.toFixed(2)} h(${visible(source[j])})`).join(' + ') +
        (terms.reduce((sum, [weight]) => sum + weight, 0) < .95 ? ' + …' : '');
    numbers.append(partOf('context', element('p', '', `Context: c = ${sum}`)));
    const most = terms[0]?.[1];
    view.append(flowOf({encoder: `${source.length} tokens`, annotations: `${source.length} vectors`,
                        score: e ? `largest for “${visible(source[e.indexOf(Math.max(...e.filter((x) => x !== null)))])}”` : '',
                        softmax: most === undefined ? '' : `“${visible(source[most])}” ${weights[most].toFixed(2)}`,
                        context: sum.length < 42 ? sum : `${sum.slice(0, 38)} …`, decoder: `predicts “${writes}”`}));
  }
  numbers.append(partOf('decoder', element('div', 'likeliest', ...likeliest.flatMap(([c, p]) => {
    const meter = Object.assign(document.createElement('progress'), {value: p});
    meter.setAttribute('aria-label', `Probability of ${c}`);
    return [element('span', '', c), meter, element('span', '', p.toFixed(3))];
  }))));
  view.append(numbers);
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
      return element('li', '', text, element('ul', '', ...branches(group, to)));
    });
  }
  return element('ul', 'tree', ...branches(beam, 0));
}

function showTried() {
  $('#written').replaceChildren(...tried.map((one, model) => {
    const {looked, step, overruled} = one;
    if (looked.error) return element('p', 'error', looked.error);
    const slider = range('Step of the decoder', {max: looked.steps.length - 1, step: 1, value: step});
    const view = element('div', '', stepView(model));
    one.show = (at) => {
      slider.value = one.step = at;
      view.replaceChildren(stepView(model));
    };
    slider.oninput = () => one.show(Number(slider.value));
    const free = element('button', '', 'Reset to the weights of the model');
    free.onclick = () => look(model, []);
    const section = element('section', '', element('div', 'figures', ...figures(looked.figure + looked.heads)), element('h3', '', 'Step by step'),
                            slider, view, ...(overruled.length ? [free] : []),
                            element('h3', '', 'Beam search: four hypotheses and their probabilities'), beamTree(looked.beam));
    section.addEventListener('cell', ({detail}) => {  // of a heat map
      one.show(detail.row);
      light(section, 'softmax');
    });
    return section;
  }));
}

/// Lights up a part of the data flow, in the picture and in the numbers.
function light(section, part) {
  for (const one of section.querySelectorAll('[data-part]')) one.classList.toggle('lit', one.dataset.part === part);
}
for (const type of ['pointerover', 'focusin'])
  $('#written').addEventListener(type, ({target}) => {
    const one = target.closest('[data-part]');
    if (one) light(one.closest('section'), one.dataset.part);
  });

$('#try').onsubmit = (event) => {
  event.preventDefault();
  tryOut();
};

// ---- The worker

const heard = {
  ready: async () => {
    const bytes = await (await unpacked($('#checkpoint'))).arrayBuffer();
    worker.postMessage(['checkpoint', bytes], [bytes]);
  },
  opened: ({parameters, title, error}) => {
    $('#opened').textContent = error ?? `${parameters.toLocaleString('en')} parameters`;
    if (isDates) return Object.values(lessons).forEach((lesson) => lesson.begin());
    document.title = $('h1').textContent = title;
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

if (!isDates) {
  document.body.classList.add('other');
  $('#date').value = '';
}
const unpacked = ({textContent}) => fetch(`data:;base64,${textContent.trim()}`);
unpacked($('#library'))
    .then(({body}) => new Response(body.pipeThrough(new DecompressionStream('gzip'))).arrayBuffer())
    .then((wasm) => worker.postMessage(['library', wasm], [wasm]));
