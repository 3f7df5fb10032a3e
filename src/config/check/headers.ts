import { headerNameProblem, maxHeaders } from '../../ground/event-fields.ts';
import { describeTyped, type Mistake } from './problem.ts';
import type { Checked } from './value.ts';

/** `headers` of a target: expressions or functions by the names of headers. */
export function checkHeadersOf(value: unknown): Checked {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    const fix = 'Write name: expression for each header';
    return { ok: false, message: 'must be an object', got: describeTyped(value), fix };
  }
  const given = Object.entries(value).filter(([, expression]) => expression !== null);
  const mistakes: Mistake[] = [];
  if (given.length > maxHeaders) mistakes.push({ message: `must hold at most ${maxHeaders} headers` });
  for (const [index, [name, expression]] of given.entries()) {
    // By its number: in the place of a name may stand what nobody may read.
    const header = `header ${index + 1}`;
    const problem = headerNameProblem(name);
    if (problem !== undefined) mistakes.push({ message: `${header} ${problem}` });
    if (typeof expression === 'function' || (typeof expression === 'string' && expression.trim() !== ''))
      continue;
    const message = `${header} must be an expression or a function`;
    const fix = 'Put it in quotes; a text is written with its own: "\'web\'"';
    mistakes.push({ message, got: describeTyped(expression), fix });
  }
  const [first, ...more] = mistakes;
  return first === undefined ? { ok: true, value: Object.fromEntries(given) } : { ok: false, ...first, more };
}
