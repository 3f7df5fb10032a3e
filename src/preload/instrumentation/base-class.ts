import { createRequire } from 'node:module';
import { dirname } from 'node:path';
import type { InstrumentationBase } from '@opentelemetry/instrumentation';
import { SvcError } from '../../ground/errors.ts';
import { nearestManifest } from '../../ground/files/manifest.ts';
import type { SvcInstrumentationConfig } from './config.ts';
import { StandIn } from './stand-in.ts';

const packageName = '@opentelemetry/instrumentation';
/** The first of the 2.x line of the SDK. */
const oldestMinor = 200;

export type BaseClass = abstract new (
  name: string,
  version: string,
  config: SvcInstrumentationConfig,
) => InstrumentationBase<SvcInstrumentationConfig>;

export interface FoundBase {
  readonly BaseClass: BaseClass;
  /** Why it is only a stand-in. */
  readonly problem: SvcError | undefined;
}

/** Of the application's own copy. Without one, a class that does nothing: the application must not fail at its import. */
export function findBaseClass(load: NodeJS.Require = createRequire(import.meta.url)): FoundBase {
  try {
    const old = tooOld(load);
    if (old !== undefined) return standIn(old);
    const { InstrumentationBase: found } = load(packageName) as { InstrumentationBase?: BaseClass };
    if (typeof found !== 'function') return standIn(`${packageName} has no InstrumentationBase`);
    return { BaseClass: found, problem: undefined };
  } catch (error) {
    const missing = /'(@[^']+)'/.exec((error as Error | null)?.message ?? '')?.[1] ?? packageName;
    return standIn(`${missing} cannot be loaded`);
  }
}

/** Its package.json, as the package of the 3.x line does not export it. */
function tooOld(load: NodeJS.Require): string | undefined {
  const { version } =
    nearestManifest(dirname(load.resolve(packageName)), ({ name }) => name === packageName) ?? {};
  const [major, minor] = (version ?? '').split('.').map(Number);
  const isOld = major === 0 && minor !== undefined && minor < oldestMinor;
  return isOld ? `${packageName} ${version} is too old` : undefined;
}

function standIn(why: string): FoundBase {
  return {
    BaseClass: StandIn as unknown as BaseClass,
    problem: new SvcError(
      'SVC_PRELOAD_INSTRUMENTATION',
      `SvcInstrumentation does nothing, because ${why}: npm install ${packageName}, version 0.200 or later, or start with node --import svc/register`,
    ),
  };
}
