import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readdirSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { claimsIn, ownStamp } from '../../../src/ground/claims.ts';
import { temporaryFolder } from '../../support/folders.ts';
import { requiring } from '../../support/requires.ts';

const always = (): boolean => true;
const foreign = { space: 'ffffffff', pid: 1, task: 1, began: 1 };

describe('claims', () => {
  const own = ownStamp();
  let folder = '';
  let claims: ReturnType<typeof claimsIn>;

  beforeEach(() => {
    folder = temporaryFolder('claims');
    claims = claimsIn(folder);
  });

  const files = (): string[] => readdirSync(folder);

  it('are empty files that say who claims what, for their owner alone', () => {
    const claim = claims.add('12');
    assert.deepEqual(files(), [claim.file]);
    assert.deepEqual(claims.list(), [claim]);
    const { size, mode } = statSync(join(folder, claim.file));
    assert.equal(size, 0);
    if (process.platform !== 'win32') assert.equal(mode & 0o777, 0o600);
  });

  it('have names of their own, those of one thread as well', () => {
    const all = Array.from({ length: 100 }, () => claims.add('12'));
    assert.equal(new Set(all.map(({ file }) => file)).size, 100);
  });

  it('of two for one subject, the later one sees the other, until that is gone', () => {
    const first = claims.add('12');
    assert.deepEqual(claims.rivalsOf(first, always), []);
    claims.add('13');
    const second = claims.add('12');
    assert.deepEqual(claims.rivalsOf(second, always), [first]);
    claims.remove(first);
    claims.remove(first);
    assert.deepEqual(claims.rivalsOf(second, always), []);
  });

  it('of a process that ended are removed', () => {
    const { pid } = spawnSync(process.execPath, ['--version']);
    const dead = claimsIn(folder, { ...own, pid }).add('12');
    const claim = claims.add('12');
    assert.deepEqual(claims.rivalsOf(claim, always), []);
    assert.equal(files().includes(dead.file), false);
  });

  it('of another host or container stand as long as they are believed', () => {
    const far = claimsIn(folder, foreign).add('12');
    const claim = claims.add('12');
    assert.deepEqual(claims.rivalsOf(claim, always), [far]);
    assert.deepEqual(
      claims.rivalsOf(claim, ({ stamp }) => stamp.space === own.space),
      [],
    );
    assert.deepEqual(files(), [claim.file]);
  });

  it('of a living thread stand only where they are believed as well', () => {
    const stale = claims.add('12');
    const claim = claims.add('12');
    assert.deepEqual(
      claims.rivalsOf(claim, () => false),
      [],
    );
    assert.equal(files().includes(stale.file), false);
  });

  it('leave what is no claim alone', () => {
    const names = ['12.notes', '12.ffffffff.1.1.000000000000', '-.ffffffff.1.1.1.000000000000'];
    for (const name of names) writeFileSync(join(folder, name), '');
    const claim = claims.add('12');
    assert.deepEqual(
      claims.rivalsOf(claim, () => false),
      [],
    );
    assert.deepEqual(files().sort(), [...names, claim.file].sort());
  });

  it('are as old as their last touch; one that is gone is older than all', () => {
    const claim = claims.add('12');
    utimesSync(join(folder, claim.file), 1_000, 1_000);
    assert.equal(claims.ageOf(claim, 1_060_000), 60_000);
    assert.equal(claims.ageOf(claim, 940_000), -60_000);
    claims.remove(claim);
    assert.equal(claims.ageOf(claim, 1_060_000), Number.POSITIVE_INFINITY);
  });

  requiring('proc', 'with the number of a process, and when it began', () => {
    it('of a process whose number another one has now are removed', () => {
      claimsIn(folder, { ...own, began: own.began - 1 }).add('12');
      const claim = claims.add('12');
      assert.deepEqual(claims.rivalsOf(claim, always), []);
      assert.deepEqual(files(), [claim.file]);
    });
  });
});
