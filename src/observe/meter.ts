import type * as OpenTelemetry from '@opentelemetry/api';
import type { Logger } from './logger.ts';
import {
  exportedNames,
  type MetricSources,
  type ObservedInstrument,
  observedInstruments,
  publishDuration,
} from './metrics.ts';
import { listenToMeters } from './otel-api.ts';
import { durationBoundsSeconds } from './outcomes.ts';

/** How often the provider is looked up while no event comes by. */
const lookupIntervalMs = 10_000;

export interface MeterBinding {
  /**
   * Takes svc's callbacks off the application's meter provider. Not at the end of the process: the provider's last
   * collection comes after svc's last event, and has to find them.
   */
  close(): void;
}

export interface MeterOptions {
  /** Version of svc, which the instrumentation scope carries. */
  readonly version: string;
  readonly logger: Logger;
}

/**
 * Offers svc's instruments to the application's meter provider, whichever line of the SDK it is of and whenever it comes.
 * An instrument of the API's no-op provider stays deaf for ever, and the API tells nobody when a provider is registered:
 * so the provider is compared at each event (9 ns) and every ten seconds, and all instruments are made anew when it changed.
 *
 * `providerNow` answers `undefined` as long as there is none, so that the API need not be loaded for nobody.
 */
export function bindMeter(
  providerNow: () => OpenTelemetry.MeterProvider | undefined,
  sources: MetricSources,
  options: MeterOptions,
): MeterBinding {
  let provider: OpenTelemetry.MeterProvider | undefined;
  let duration: OpenTelemetry.Histogram | undefined;
  let release = (): void => {};
  let failed = false;

  /** A provider is the application's code: what it throws must not reach the call whose event is recorded. */
  const guarded = (work: () => void): void => {
    try {
      work();
    } catch (error) {
      if (!failed)
        options.logger.warn("the application's meter provider failed", { error: (error as Error)?.name });
      failed = true;
    }
  };
  const refresh = (): void => {
    const current = providerNow();
    if (current === undefined || current === provider) return;
    provider = current;
    duration = undefined;
    release();
    release = () => {};
    const meter = current.getMeter('svc', options.version);
    duration = createDuration(meter);
    release = observeAll(meter, sources);
  };

  sources.durations.listen((seconds, attributes) =>
    guarded(() => {
      refresh();
      duration?.record(seconds, attributes);
    }),
  );
  guarded(refresh);
  // What is handed over need not wait for the next event.
  const stopListening = listenToMeters(() => guarded(refresh));
  const timer = setInterval(() => guarded(refresh), lookupIntervalMs);
  timer.unref();
  return {
    close: () => {
      clearInterval(timer);
      stopListening();
      sources.durations.listen(undefined);
      guarded(release);
    },
  };
}

function createDuration(meter: OpenTelemetry.Meter): OpenTelemetry.Histogram {
  return meter.createHistogram(publishDuration.name, {
    description: publishDuration.description,
    unit: publishDuration.unit,
    advice: { explicitBucketBoundaries: [...durationBoundsSeconds] },
  });
}

/** Returns the function that takes every callback off again. */
function observeAll(meter: OpenTelemetry.Meter, sources: MetricSources): () => void {
  const releases = observedInstruments.flatMap((instrument) =>
    exportedNames(instrument).map((name) => {
      const observable = createObservable(meter, instrument, name);
      const callback = (result: OpenTelemetry.ObservableResult): void =>
        instrument.read(sources, (value, attributes) => result.observe(value, attributes));
      observable.addCallback(callback);
      return () => observable.removeCallback(callback);
    }),
  );
  return () => {
    for (const release of releases) release();
  };
}

function createObservable(
  meter: OpenTelemetry.Meter,
  { kind, description, unit }: ObservedInstrument,
  name: string,
): OpenTelemetry.Observable {
  const options = { description, unit };
  switch (kind) {
    case 'counter':
      return meter.createObservableCounter(name, options);
    case 'upDownCounter':
      return meter.createObservableUpDownCounter(name, options);
    case 'gauge':
      return meter.createObservableGauge(name, options);
  }
}
