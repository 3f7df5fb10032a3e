import fc from 'fast-check';
import { forms } from './forms.ts';

/** One function of a program: how it is written, what it returns, how that ends. */
export interface Fn {
  readonly form: string;
  readonly shape: string;
  readonly end: 'resolved' | 'rejected' | 'thrown';
  readonly when: 'now' | 'tick' | 'timer';
  readonly isHandled: boolean;
  readonly isCached: boolean;
  readonly phase: 'AFTER_RETURNING' | 'AFTER' | 'BEFORE';
}

/** A call and what its caller does with it, or steps in a surrounding. */
export type Step =
  | { readonly use: string; readonly fn: number; readonly x: number }
  | { readonly within: string; readonly steps: readonly Step[] };

export interface Program {
  readonly fns: readonly Fn[];
  readonly steps: readonly Step[];
  /** In a process of its own, which ends this way; `null`: in one with others. */
  readonly ending: string | null;
}

const shapes = [
  ...['native', 'species', 'plain', 'properties', 'speciesProperties', 'frozen', 'ownThen'],
  ...['lazy', 'thenable', 'callable', 'frozenThenable', 'value'],
];
const usesOf = {
  any: ['awaited', 'ignored', 'late', 'chained', 'looked', 'raced'],
  callback: ['calledBack'],
  generator: ['consumed', 'broken', 'byHand', 'thrownInto', 'ignored'],
};
const surroundings = ['span', 'store', 'strands', 'beside', 'timer', 'nextTick', 'twice'];
/** What goes on while the program does. */
const concurrent = ['ignored', 'late', 'raced', 'looked', 'strands', 'beside'];

/** Of fixtures/alone.mjs. */
const endings = [
  ...[
    'byItself',
    'unhandled',
    'thrown',
    'thrownByTimer',
    'code',
    'exit',
    'exitLater',
    'atExit',
    'beforeExit',
  ],
  ...[
    'exitBeforeExit',
    'caught',
    'rejectionsHeard',
    'signalHeard',
    'signal',
    'warning',
    'unsettled',
    'unref',
  ],
];

const fn: fc.Arbitrary<Fn> = fc.record({
  form: fc.constantFrom(...Object.keys(forms)),
  shape: fc.constantFrom('native', ...shapes),
  end: fc.constantFrom('resolved', 'rejected', 'thrown'),
  when: fc.constantFrom('now', 'tick', 'timer'),
  isHandled: fc.boolean(),
  isCached: fc.boolean(),
  phase: fc.constantFrom('AFTER_RETURNING', 'AFTER_RETURNING', 'AFTER', 'BEFORE'),
});

const step = fc.letrec<{ step: Step; call: Step; block: Step }>((tie) => ({
  step: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    { weight: 4, arbitrary: tie('call') },
    tie('block'),
  ),
  call: fc.record({ use: fc.nat(5), fn: fc.nat(3), x: fc.nat(20) }) as unknown as fc.Arbitrary<Step>,
  block: fc.record({
    within: fc.constantFrom(...surroundings),
    steps: fc.array(tie('step'), { minLength: 1, maxLength: 3 }),
  }),
})).step;

export const anyProgram: fc.Arbitrary<Program> = fc.record({
  fns: fc.array(fn, { minLength: 1, maxLength: 3 }),
  steps: fc.array(step, { minLength: 1, maxLength: 5 }),
  ending: fc.oneof(
    { weight: 11, arbitrary: fc.constant(null) },
    { weight: 1, arbitrary: fc.constantFrom(...endings) },
  ),
});

export interface Rendered {
  readonly text: string;
  /** Names of functions whose rejections are not told of, where nobody handles them. */
  readonly silent: readonly string[];
  readonly targets: readonly object[];
  readonly ending: string | null;
}

/** The program as a module, and its functions as targets. */
export function renderProgram({ fns, steps, ending }: Program, id: string, isWaiting: boolean): Rendered {
  const written = fns.map((each, index) => {
    const form = forms[each.form];
    if (form === undefined) throw new Error(`no such form: ${each.form}`);
    // Alone, a rejection that is not told of does not end the process.
    const end = each.end === 'rejected' && ending !== null && !form.isAsync ? 'thrown' : each.end;
    // Where callers wait for an event they get a promise that follows a plain one, which others may have as well.
    const follows = isWaiting && form.isAsync !== true;
    const shape = follows && each.shape === 'frozen' ? 'native' : each.shape;
    const isCached = each.isCached && !isWaiting;
    return { ...each, ...form, ...form.write(`f${index}`, { ...each, end, shape, isCached }) };
  });
  // docs/capture.md: to watch a promise that others may have is to handle it.
  const silent = written.flatMap(({ isAsync, kind }, index) =>
    isAsync || kind !== 'any' ? [] : [`f${index}`],
  );
  const names: string[] = [];
  const textOf = (list: readonly Step[], indent: string): string =>
    list.map((each) => `${indent}${lineOf(each, indent)}\n`).join('');
  const lineOf = (each: Step, indent: string): string => {
    if ('within' in each) {
      names.push(each.within);
      const name = `${each.within}${names.length}`;
      return `await within.${each.within}(say, '${name}', async (say) => {\n${textOf(each.steps, `${indent}  `)}${indent}});`;
    }
    const { kind, call } = written[each.fn % written.length] as (typeof written)[number];
    const uses = usesOf[kind];
    const chosen = uses[Number(each.use) % uses.length] as string;
    // Alone, a rejection that nobody handles ends the process wherever the others are by then.
    const use = ending !== null && ['ignored', 'late'].includes(chosen) ? (uses[0] as string) : chosen;
    names.push(use);
    const args = kind === 'callback' ? 'done' : '';
    return `await use.${use}(say, (${args}) => ${call(each.x)});`;
  };
  const body = textOf(steps, '  ');
  const isConcurrent = names.some((name) => concurrent.includes(name));
  const phaseOf = ({ phase, hasOnePhase }: (typeof written)[number]): string => {
    if (hasOnePhase) return 'AFTER_RETURNING';
    // A failed call of phase AFTER waits for its event as well: its rejection is told later, if nobody handles it.
    return phase === 'AFTER' && isWaiting && isConcurrent ? 'AFTER_RETURNING' : phase;
  };
  const phases = Object.fromEntries(written.map((each, index) => [`f${index}`, phaseOf(each)]));
  const text = `import { answer, asyncSteps, construct, give, giveLater, steps } from './shapes.mjs';
import { use, within } from './uses.mjs';

export const phases = ${JSON.stringify(phases)};
export const isConcurrent = ${isConcurrent};

${written.map(({ text }) => text).join('\n')}
export async function run(say) {
${body}}
${ending === null ? '' : `\nconst done = () => {};\nexport const called = () => ${written[0]?.call(steps.length)};\n`}`;
  const targets = written.map(({ path, kind }, index) => ({
    module: `./${id}.mjs`,
    function: path,
    eventType: `${id} f${index}`,
    phase: phases[`f${index}`],
    payload: '{ x: #args[0], result: #result }',
    ...(kind === 'callback' && { callback: 'last' }),
  }));
  return { text, targets, ending, silent };
}
