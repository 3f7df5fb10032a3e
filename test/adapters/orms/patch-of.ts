import assert from 'node:assert/strict';
import { ormPatches } from '../../../src/adapters/orms/orms.ts';

/** The patch of an ORM, by what an application imports. */
export function patchOf(specifier: string): (typeof ormPatches)[number] {
  return ormPatches.find((orm) => orm.specifier === specifier) ?? assert.fail(`no patch of ${specifier}`);
}
