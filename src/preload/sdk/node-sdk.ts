// sdk/: `svc.telemetry.sdk: node`, the OpenTelemetry SDK for applications that start none of their own.

import type { Config } from '../../config/config.ts';
import { readSource } from '../../context/source.ts';
import { SvcError } from '../../ground/errors.ts';
import type { Logger } from '../../observe/logger.ts';
import type { ProcessEnd } from '../process-end.ts';
import { type Application, applicationOf, isSdkRegistered, watchLaterSdks } from './application.ts';
import { finishBeforeSdk } from './finish-before-sdk.ts';
import { findInstrumentations, hookSdkImports, type SdkModule, startSdk } from './start-sdk.ts';

export interface RunningSdk {
  /** Lets the instrumentations see what ES modules import. After svc has set its own hooks: Node takes the loader once. */
  hookImports(): void;
  /** False once it is shut down. */
  isRunning(): boolean;
  /** Milliseconds that events and spans may take once the process was told to end. */
  readonly deadlineMs: number;
  /** svc's events first, whose spans end with them; then the SDK, in what is left of the time. */
  finishAfter(finish: ProcessEnd['finish']): ProcessEnd['finish'];
}

const packageName = '@opentelemetry/sdk-node';
/** As in `peerDependencies`; the second one is the first that is not tried. */
const versions = { least: 200, before: 400 } as const;

/**
 * Starts the SDK of the application's own installation, as the variables `OTEL_*` say. `undefined` where there is nothing to
 * start, which is said; a `SvcError` where it cannot be.
 */
export function startNodeSdk(config: Config, logger: Logger): RunningSdk | SvcError | undefined {
  if (process.env.OTEL_SDK_DISABLED?.trim().toLowerCase() === 'true') {
    logger.info('svc.telemetry.sdk: node starts nothing, because OTEL_SDK_DISABLED is true');
    return undefined;
  }
  if (isSdkRegistered()) {
    logger.warn(
      "svc.telemetry.sdk: node starts nothing, because the application has registered an OpenTelemetry SDK already: svc's spans and metrics go there. Set svc.telemetry.sdk: none",
    );
    return undefined;
  }
  const application = applicationOf(config.baseDir);
  const problem = problemOf(application.versionOf(packageName));
  if (problem !== undefined) return new SvcError('SVC_PRELOAD_SDK', problem);
  try {
    return started(application, config, logger);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    return new SvcError('SVC_PRELOAD_SDK', `the OpenTelemetry SDK could not be started: ${reason}`);
  }
}

function started(application: Application, config: Config, logger: Logger): RunningSdk {
  const instruments = findInstrumentations(application, logger);
  const { instrumentations } = instruments;
  // The name that the events carry.
  const { serviceName } = readSource(config.service);
  const options = { ...instruments, ...(serviceName !== null && { serviceName }) };
  const sdk = startSdk(application.load(packageName) as SdkModule, options, logger);
  const hookImports = hookSdkImports(
    instrumentations,
    application.fileOf(packageName) ?? packageName,
    logger,
  );
  watchLaterSdks(() =>
    logger.error(
      'the application starts an OpenTelemetry SDK of its own, which receives nothing: svc has started one (svc.telemetry.sdk: node). Remove either: set svc.telemetry.sdk: none, or leave out what starts the other',
    ),
  );
  const collector = { hasFailed: false };
  let isRunning = true;
  const shutDown = (): Promise<void> => {
    isRunning = false;
    return sdk.shutdown();
  };
  return {
    hookImports,
    isRunning: () => isRunning,
    deadlineMs: config.shutdown.timeoutMs,
    finishAfter: (finish) => finishBeforeSdk(finish, shutDown, collector, logger),
  };
}

/** Why the package cannot be used, and what to do. */
function problemOf(version: string | undefined): string | undefined {
  const install = `npm install ${packageName} @opentelemetry/auto-instrumentations-node`;
  if (version === undefined)
    return `svc.telemetry.sdk: node needs the package ${packageName}, which is not installed: ${install}`;
  const [major = 0, minor = 0] = version.split('.').map(Number);
  if (major === 0 && minor >= versions.least && minor < versions.before) return undefined;
  return `svc.telemetry.sdk: node needs ${packageName} from 0.${versions.least}.0 on and below 0.${versions.before}.0, found ${version}: ${install}`;
}
