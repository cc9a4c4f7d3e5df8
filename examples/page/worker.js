// Trains beside the page, which so stays responsive. What page.js says comes in as [name, value], what it shows goes out.
var Module = {onRuntimeInitialized: () => postMessage({ready: call('begin', updates)})};

const updates = 1500, shown = ['Wednesday June 27 2001', '16.01.75', 'May the 4th, 2005'];
let running = false, step = 0, seconds = 0;

/// A function of page.cpp.
function call(name, ...values) {
  return JSON.parse(Module.ccall(name, 'string', values.map((value) => typeof value), values));
}

/// A few updates; then messages come in, and on with it.
function train() {
  if (!running) return;
  const before = performance.now();
  const news = call('update', Math.min(10, updates - step));
  step = news.step;
  if (step % 100 === 0) news.evaluated = call('evaluate', step < updates ? 100 : 500);
  seconds += (performance.now() - before) / 1000;
  if (step % 50 === 0) news.maps = shown.map((date) => call('look', date));
  running = step < updates;
  postMessage({news: {...news, seconds, updates, done: step === updates}});
  setTimeout(train);
}

onmessage = ({data: [name, value]}) => {
  if (name === 'train') {
    running = value;
    train();
  } else if (name === 'again') {
    step = seconds = 0;
    call('begin', updates);
  } else {
    postMessage({typed: call('look', value), date: value});
  }
};
