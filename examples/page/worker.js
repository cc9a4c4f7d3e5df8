// Trains beside the page, which so stays responsive. What page.js says comes in as [name, value], what it shows goes out.
var Module = {onRuntimeInitialized: begin};

const updates = 1500, shown = ['Wednesday June 27 2001', '16.01.75', 'May the 4th, 2005'];
let seconds, next;

/// A function of page.cpp.
function call(name, ...values) {
  return JSON.parse(Module.ccall(name, 'string', values.map((value) => typeof value), values));
}

function begin() {
  seconds = 0;
  postMessage({ready: call('begin', updates)});
}

/// A few updates; then messages come in, and on with it.
function train() {
  const before = performance.now();
  const news = call('update', 10), {step} = news;
  if (step % 100 === 0) news.evaluated = call('evaluate', step < updates ? 100 : 500);
  seconds += (performance.now() - before) / 1000;
  if (step % 50 === 0) news.maps = shown.map((date) => call('look', date));
  postMessage({news: {...news, seconds, updates, done: step === updates}});
  if (step < updates) next = setTimeout(train);
}

onmessage = ({data: [name, value]}) => {
  if (name === 'look') return postMessage({typed: call('look', value)});
  clearTimeout(next);  // a pause, unless there is more to do
  if (name === 'train') train();
  if (name === 'again') begin();
};
