import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readdirSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { addClaim, ageOf, listClaims, ownStamp, removeClaim, rivalsOf } from '../../../src/ground/claims.ts';
import { temporaryFolder } from '../../support/folders.ts';
import { requiring } from '../../support/requires.ts';

const always = (): boolean => true;
const foreign = { space: 'ffffffff', pid: 1, task: 1, began: 1 };

describe('claims', () => {
  const own = ownStamp();
  let folder = '';

  beforeEach(() => {
    folder = temporaryFolder('claims');
  });

  const files = (): string[] => readdirSync(folder);

  it('are empty files that say who claims what, for their owner alone', () => {
    const claim = addClaim(folder, '12', own);
    assert.deepEqual(files(), [claim.file]);
    assert.deepEqual(listClaims(folder), [claim]);
    const { size, mode } = statSync(join(folder, claim.file));
    assert.equal(size, 0);
    if (process.platform !== 'win32') assert.equal(mode & 0o777, 0o600);
  });

  it('have names of their own, those of one thread as well', () => {
    const claims = Array.from({ length: 100 }, () => addClaim(folder, '12', own));
    assert.equal(new Set(claims.map(({ file }) => file)).size, 100);
  });

  it('of two for one subject, the later one sees the other, until that is gone', () => {
    const first = addClaim(folder, '12', own);
    assert.deepEqual(rivalsOf(folder, first, always), []);
    addClaim(folder, '13', own);
    const second = addClaim(folder, '12', own);
    assert.deepEqual(rivalsOf(folder, second, always), [first]);
    removeClaim(folder, first);
    removeClaim(folder, first);
    assert.deepEqual(rivalsOf(folder, second, always), []);
  });

  it('of a process that ended are removed', () => {
    const { pid } = spawnSync(process.execPath, ['--version']);
    const dead = addClaim(folder, '12', { ...own, pid });
    const claim = addClaim(folder, '12', own);
    assert.deepEqual(rivalsOf(folder, claim, always), []);
    assert.equal(files().includes(dead.file), false);
  });

  it('of another host or container stand as long as they are believed', () => {
    const far = addClaim(folder, '12', foreign);
    const claim = addClaim(folder, '12', own);
    assert.deepEqual(rivalsOf(folder, claim, always), [far]);
    assert.deepEqual(
      rivalsOf(folder, claim, ({ stamp }) => stamp.space === own.space),
      [],
    );
    assert.deepEqual(files(), [claim.file]);
  });

  it('of a living thread stand only where they are believed as well', () => {
    const stale = addClaim(folder, '12', own);
    const claim = addClaim(folder, '12', own);
    assert.deepEqual(
      rivalsOf(folder, claim, () => false),
      [],
    );
    assert.equal(files().includes(stale.file), false);
  });

  it('leave what is no claim alone', () => {
    const names = ['12.notes', '12.ffffffff.1.1.000000000000', '-.ffffffff.1.1.1.000000000000'];
    for (const name of names) writeFileSync(join(folder, name), '');
    const claim = addClaim(folder, '12', own);
    assert.deepEqual(
      rivalsOf(folder, claim, () => false),
      [],
    );
    assert.deepEqual(files().sort(), [...names, claim.file].sort());
  });

  it('are as old as their last touch; one that is gone is older than all', () => {
    const claim = addClaim(folder, '12', own);
    utimesSync(join(folder, claim.file), 1_000, 1_000);
    assert.equal(ageOf(folder, claim, 1_060_000), 60_000);
    assert.equal(ageOf(folder, claim, 940_000), -60_000);
    removeClaim(folder, claim);
    assert.equal(ageOf(folder, claim, 1_060_000), Number.POSITIVE_INFINITY);
  });

  requiring('proc', 'with the number of a process, and when it began', () => {
    it('of a process whose number another one has now are removed', () => {
      addClaim(folder, '12', { ...own, began: own.began - 1 });
      const claim = addClaim(folder, '12', own);
      assert.deepEqual(rivalsOf(folder, claim, always), []);
      assert.deepEqual(files(), [claim.file]);
    });
  });
});
