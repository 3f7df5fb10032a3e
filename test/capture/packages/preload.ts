// Runs in the applications of hook.test.ts: hooks the targets of the environment, and prints at exit what became of them.

import { hookPackages } from '../../../src/capture/packages/hook.ts';
import type { PackageTarget } from '../../../src/capture/packages/package-target.ts';
import { type RecordingSlot, recordingSlot } from '../recording-slot.ts';

const slots = new Map<string, RecordingSlot>();
const told: Record<string, string[]> = {};
const parameters: Record<string, readonly string[] | undefined> = {};
const say = (id: string, what: string) => {
  told[id] ??= [];
  told[id].push(what);
};
const targets = (JSON.parse(process.env.TARGETS ?? '[]') as string[]).map((id): PackageTarget => {
  const at = id.lastIndexOf('#');
  const [specifier, functionPath] = [id.slice(0, at), id.slice(at + 1)];
  const slotFor = (names: readonly string[] | undefined) => {
    let slot = slots.get(id);
    if (slot === undefined) {
      slot = recordingSlot({ id });
      slots.set(id, slot);
      parameters[id] = names;
      if (functionPath === 'badPlan') throw new Error('the expression does not parse');
    }
    return slot;
  };
  return { id, specifier, functionPath, baseDir: process.cwd(), slotFor };
});
hookPackages(
  targets,
  { patched: (id) => say(id, 'patched'), failed: (id, reason) => say(id, reason) },
  { preloadedBy: process.env.PRELOADED_BY === 'require' ? 'require' : 'import' },
);
process.on('exit', () => {
  const calls = Object.fromEntries([...slots].map(([id, slot]) => [id, slot.calls]));
  process.stdout.write(`\n${JSON.stringify({ calls, told, parameters })}\n`);
});
