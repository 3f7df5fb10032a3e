import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { readAhead } from '../../../../src/adapters/local-backup/local-source.ts';

interface Plan {
  readonly plan: number;
  readonly isLarge: boolean;
}

async function* plans(count: number, large?: number): AsyncGenerator<Plan> {
  for (let plan = 1; plan <= count; plan++) yield { plan, isLarge: plan === large };
}

function reading() {
  const begun: number[] = [];
  const read = async ({ plan }: Plan): Promise<number> => {
    begun.push(plan);
    return plan;
  };
  return { begun, read };
}

describe('reading ahead', () => {
  it('has begun with the next one when one is handed out, and with none after it', async () => {
    const { begun, read } = reading();
    const seen: (readonly [number, number])[] = [];
    for await (const batch of readAhead(plans(3), read)) seen.push([batch, begun.length]);
    assert.deepEqual(seen, [
      [1, 2],
      [2, 3],
      [3, 3],
    ]);
  });

  it('reads nothing beside a large one', async () => {
    const { begun, read } = reading();
    const seen: (readonly [number, number])[] = [];
    for await (const batch of readAhead(plans(4, 2), read)) seen.push([batch, begun.length]);
    assert.deepEqual(seen, [
      [1, 1],
      [2, 2],
      [3, 4],
      [4, 4],
    ]);
  });

  it('tells a failure in its turn', async () => {
    const read = ({ plan }: Plan): Promise<number> =>
      plan === 2 ? Promise.reject(new Error('gone')) : Promise.resolve(plan);
    const seen: number[] = [];
    const all = async (): Promise<void> => {
      for await (const batch of readAhead(plans(3), read)) {
        seen.push(batch);
        await sleep(1);
      }
    };
    await assert.rejects(all, /gone/);
    assert.deepEqual(seen, [1]);
  });

  it('leaves nothing under way when it is ended early', async () => {
    let inFlight = 0;
    const read = async ({ plan }: Plan): Promise<number> => {
      inFlight++;
      await sleep(5);
      inFlight--;
      return plan;
    };
    for await (const _ of readAhead(plans(3), read)) break;
    assert.equal(inFlight, 0);
  });
});
