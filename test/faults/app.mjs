// The application under load: it knows nothing of svc. Lines on standard input: `load <calls per second>`, `stop`.
const keyCount = Number(process.env.FAULT_KEYS);
const padding = 'x'.repeat(Number(process.env.FAULT_PADDING));
const numbers = new Array(keyCount).fill(0);
let calls = 0;
let waiting = 0;
let longestWaitMs = 0;
let onIdle = () => {};

async function order(key, call) {
  return { key, call, padding };
}

async function callOnce() {
  const index = calls++ % keyCount;
  const key = `k${index}`;
  const began = performance.now();
  waiting++;
  await order(key, `${key}/${numbers[index]++}`);
  longestWaitMs = Math.max(longestWaitMs, performance.now() - began);
  if (--waiting === 0) onIdle();
}

let timer;
function load(rate) {
  clearInterval(timer);
  const started = performance.now();
  let done = 0;
  timer = setInterval(() => {
    const due = ((performance.now() - started) / 1000) * rate;
    // A process that did not get its turn for a while leaves out what it would have to make up for.
    for (done = Math.max(done, due - rate / 4); done < due; done++) callOnce();
  }, 10);
}

let input = '';
process.stdin.setEncoding('utf8').on('data', (text) => {
  input += text;
  for (let end = input.indexOf('\n'); end >= 0; end = input.indexOf('\n')) {
    const [word, number] = input.slice(0, end).split(' ');
    input = input.slice(end + 1);
    if (word === 'load') load(Number(number));
    else if (word === 'stop') {
      clearInterval(timer);
      const say = () => console.log(JSON.stringify({ calls, numbers, longestWaitMs }));
      if (waiting === 0) say();
      else onIdle = say;
    }
  }
});
// The suite is gone, by whatever signal.
process.stdin.on('end', () => process.kill(process.pid, 'SIGKILL'));
console.log('ready');
