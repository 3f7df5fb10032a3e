import assert from 'node:assert/strict';
import { instanceTraits } from '../../src/envelope/ids.ts';
import { snowflakeEpochMs } from '../../src/ground/event-fields.ts';
import { eventIds } from '../support/event-ids.ts';
import { useClock } from '../support/fake-time.ts';
import { temporaryFolder } from '../support/folders.ts';

describe('the worker id of a process that none was configured for', () => {
  it('differs from one start to the next, where host name, process id and all the rest are the same', async () => {
    const leasePath = temporaryFolder('derived');
    const derived: number[] = [];
    for (let start = 0; start < 200; start++) {
      const ids = eventIds({ leasePath });
      derived.push(ids.worker()?.workerId ?? assert.fail());
      await ids.close(0);
    }
    assert.ok(derived.every((id) => Number.isInteger(id) && id >= 0 && id <= 1023));
    // 182 are to be expected of 200 drawn from 1,024, give or take 4.
    assert.ok(new Set(derived).size > 155, String(new Set(derived).size));
  });

  it('lets sixteen containers with one host name, each with process id 1, make no equal event ids', async () => {
    const seen = new Map<string, number>();
    for (let container = 0; container < 16; container++) {
      const clock = useClock({ ms: snowflakeEpochMs + 7e10, now: (): number => clock.ms });
      const ids = eventIds({ leasePath: temporaryFolder('container') });
      for (let event = 0; event < 2000; event++) {
        clock.ms += 10;
        const id = ids.next();
        seen.set(id, (seen.get(id) ?? 0) + 1);
      }
      await ids.close(0);
    }
    // Two of them share a worker id in 11 of 100 runs, and then have an id or none in common: 2,000 / 4,096.
    assert.ok(seen.size >= 32_000 - 6, `${32_000 - seen.size} equal`);
  });

  it('depends on what the platform says about the instance', () => {
    const names = ['POD_IP', 'POD_NAME', 'ECS_CONTAINER_METADATA_URI_V4', 'AWS_LAMBDA_LOG_STREAM_NAME'];
    for (const name of names) {
      assert.notDeepEqual(instanceTraits({ [name]: 'a' }), instanceTraits({ [name]: 'b' }), name);
    }
    assert.deepEqual(instanceTraits({}), instanceTraits({ OTHER: 'b' }));
  });
});
