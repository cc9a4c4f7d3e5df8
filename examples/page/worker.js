// Runs page.cpp in a worker, so that the page stays responsive. Messages in both directions are [name, value].
const lessons = {
  dates: {updates: 1500, rate: 3e-3, every: 100, few: 100, all: 500},
  sentences: {updates: 1000, rate: 6e-3, every: 100, few: 20, all: 50},
};
const shown = [['Wednesday June 27 2001', '2001-06-27'], ['16.01.75', '1975-01-16'], ['May the 4th, 2005', '2005-05-04']];
const seconds = {};  // training time of each lesson
let module, next;

/// Calls a function of page.cpp.
function call(name, request) {
  return JSON.parse(module.ccall(name, 'string', ['string'], [JSON.stringify(request)]));
}

/// The figures of the shown dates by each of `models` models.
function maps(models) {
  return shown.map(([line, expected]) => Array.from({length: models}, (_, model) => (
    call('look', {lesson: 'dates', line, expected, model, overruled: []}))));
}

/// Makes 10 updates, then schedules the next ones, so that messages are received in between.
function train(lesson) {
  const {updates, every, few, all} = lessons[lesson];
  const before = performance.now();
  const news = call('update', {lesson, updates: 10}), done = news.step === updates;
  if (news.step % every === 0) news.evaluated = call('evaluate', {lesson, count: done ? all : few});
  seconds[lesson] += (performance.now() - before) / 1000;
  if (lesson === 'dates' && news.step % 50 === 0)
    news.maps = maps(news.losses.length);
  postMessage(['news', {...news, lesson, updates, done, seconds: seconds[lesson]}]);
  if (!done) next = setTimeout(train, 0, lesson);
}

onmessage = async ({data: [name, value]}) => {
  if (name === 'look') return postMessage(['looked', {...call('look', value), model: value.model}]);
  clearTimeout(next);  // stops training; 'train' starts it again
  if (name === 'library') {
    module = await Attention({wasmBinary: value});
    postMessage(['ready']);
  } else if (name === 'checkpoint') {
    const size = value.byteLength, place = module._malloc(size);
    module.HEAPU8.set(new Uint8Array(value), place);
    postMessage(['opened', call('open_checkpoint', {place, size})]);
  } else if (name === 'begin') {
    seconds[value.lesson] = 0;
    const begun = call('begin', {...lessons[value.lesson], ...value});
    postMessage(['began', {...begun, ...value, maps: value.trained ? maps(1) : []}]);
  } else if (name === 'train') {
    train(value);
  }
};
