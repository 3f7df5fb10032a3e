/** The part of every application of forms that calls them one by one and writes down what they gave. */
export const driver = `'use strict';
const { writeFileSync } = require('node:fs');

let lines = [];
/** Called in the body of each form: notes the line that the stack tells. */
globalThis.here = () => {
  const frame = new Error().stack.split('\\n')[2];
  const [, file, line] = /([^/\\\\]+?)(?:\\?[^:]*)?:(\\d+):\\d+\\)?$/.exec(frame) ?? [];
  lines.push(file + ':' + line);
};

const plain = (value) => JSON.parse(JSON.stringify(value, (key, each) =>
  each === undefined ? 'undefined' : typeof each === 'bigint' ? each + 'n' : each) ?? 'null');

function within(milliseconds, promise) {
  let timer;
  const late = new Promise((_, reject) => { timer = setTimeout(() => reject(new Error('took longer than ' + milliseconds + ' ms')), milliseconds); });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

exports.runForms = async function runForms(ids, load) {
  const results = {};
  for (const id of ids) {
    lines = [];
    try {
      const call = await load(id);
      results[id] = { returned: plain(await within(60_000, Promise.resolve(call()))), lines };
    } catch (error) {
      results[id] = { error: String(error?.stack ?? error), lines };
    }
    writeFileSync(process.env.FORMS_RESULTS, JSON.stringify(results));
  }
};
`;
