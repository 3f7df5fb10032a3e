// Run by wrap-depth.test.ts in a process of its own: how deep calls reach, and how many arguments, bare and captured.

import { createSlot } from '../../../src/capture/slot.ts';
import { wrapFunction } from '../../../src/capture/wrap/wrap.ts';
import { recordingSlot } from '../recording-slot.ts';

type Fn = (...args: number[]) => number;

const { plan } = recordingSlot();
const outbox = { aggregateType: 'order', aggregateId: () => '1', result: undefined };
const captures: Record<string, (fn: Fn) => Fn> = {
  bare: (fn) => fn,
  captured: (fn) =>
    wrapFunction(
      fn,
      createSlot(plan, () => undefined),
    ),
  off: (fn) => wrapFunction(fn, createSlot(plan, null)),
  outbox: (fn) =>
    wrapFunction(
      fn,
      createSlot({ ...plan, failOnError: true, outbox }, () => undefined),
    ),
};

const capture = captures[process.argv[2] ?? ''] as (fn: Fn) => Fn;

function firstDepth(): number {
  let depth = 0;
  const recurse = capture(function step(level: number): number {
    depth = level;
    return 1 + recurse(level + 1);
  });
  try {
    recurse(1);
  } catch {
    return depth;
  }
  return 0;
}

function maxArguments(): number {
  const count = capture((...args) => args.length);
  for (let max = 0; ; max += 1000) {
    try {
      count(...new Array<number>(max + 1000).fill(0));
    } catch {
      return max;
    }
  }
}

process.stdout.write(JSON.stringify({ depth: firstDepth(), args: maxArguments() }));
