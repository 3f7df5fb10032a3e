import type { Logger } from '../../observe/logger.ts';
import { otelApi } from '../../observe/otel-api.ts';
import type { Instruments } from './instrumentations.ts';
import { isSdkRegistered } from './registrations.ts';

/** What is used of the SDK that runs. */
export interface StartedSdk {
  /** Rejects where the collector takes nothing. */
  shutdown(): Promise<void>;
}

export interface SdkOptions extends Instruments {
  readonly serviceName?: string;
}

/** What is used of `@opentelemetry/sdk-node`: the class of both lines, and the function that reads a configuration file. */
export interface SdkModule {
  readonly NodeSDK: new (options: SdkOptions) => StartedSdk & { start(): void };
  /** Of the 3.x line. */
  readonly startNodeSdk?: (options: Instruments) => StartedSdk;
  /** The same, as the 2.x line calls it. */
  readonly startNodeSDK?: (options: Instruments) => StartedSdk;
}

/** As the variables `OTEL_*` say, or the file that `OTEL_CONFIG_FILE` names, of which the class knows nothing. */
export function startSdk(sdkModule: SdkModule, options: SdkOptions, logger: Logger): StartedSdk {
  if (process.env.OTEL_CONFIG_FILE?.trim()) {
    const start = sdkModule.startNodeSdk ?? sdkModule.startNodeSDK;
    if (start !== undefined) return startFromFile(start, options, logger);
    logger.warn(
      'OTEL_CONFIG_FILE does not count: the @opentelemetry/sdk-node that is installed reads no such file. Install a later one, or set the variables OTEL_* instead',
    );
  }
  const sdk = new sdkModule.NodeSDK(options);
  sdk.start();
  return sdk;
}

function startFromFile(
  start: NonNullable<SdkModule['startNodeSdk']>,
  { instrumentations }: Instruments,
  logger: Logger,
): StartedSdk {
  const sdk = start({ instrumentations });
  if (!isSdkRegistered()) {
    logger.warn(
      'svc.telemetry.sdk: node runs no SDK: the file of OTEL_CONFIG_FILE sets none up (`disabled: true`), or is wrong, which OpenTelemetry has said above',
    );
    return sdk;
  }
  // It does this itself where it starts from variables.
  const meters = otelApi()?.metrics.getMeterProvider();
  for (const each of instrumentations as readonly { setMeterProvider?(provider: unknown): void }[])
    each.setMeterProvider?.(meters);
  return sdk;
}
