import { createRequire } from 'node:module';
import type * as Avsc from 'avsc';
import { SvcError } from '../../ground/errors.ts';
import { runOwnWork } from '../../ground/lifecycle.ts';

export type AvroType = Avsc.Type;

let loaded: typeof Avsc | undefined;

/** The library that encodes. Synchronously, for nobody waits where events are serialized. Throws where it is not installed. */
export function loadAvsc(): typeof Avsc {
  loaded ??= runOwnWork(() => {
    try {
      return createRequire(import.meta.url)('avsc') as typeof Avsc;
    } catch (error) {
      const isMissing = (error as NodeJS.ErrnoException).code === 'MODULE_NOT_FOUND';
      const why = isMissing ? 'which is not installed: npm install avsc' : 'which cannot be loaded';
      throw new SvcError(
        'SVC_ADAPTERS_PACKAGE_MISSING',
        `svc.serde.type AVRO needs the package avsc, ${why}`,
      );
    }
  });
  return loaded;
}
