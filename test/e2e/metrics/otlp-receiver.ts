import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

/** One metric as OTLP/HTTP with JSON carries it. */
export interface OtlpMetric {
  readonly name: string;
  readonly unit: string;
  readonly sum?: { readonly isMonotonic: boolean; readonly dataPoints: readonly OtlpPoint[] };
  readonly gauge?: { readonly dataPoints: readonly OtlpPoint[] };
  readonly histogram?: { readonly dataPoints: readonly OtlpPoint[] };
}

export interface OtlpPoint {
  readonly attributes: readonly { readonly key: string; readonly value: { readonly stringValue?: string } }[];
  readonly asInt?: number | string;
  readonly asDouble?: number;
  readonly count?: number | string;
  readonly explicitBounds?: readonly number[];
}

export interface OtlpReceiver {
  /** Where an exporter of metrics sends to. */
  readonly url: string;
  /** The metrics of a scope as they were sent last, by name. */
  metricsOf(scope: string): Readonly<Record<string, OtlpMetric>>;
  close(): void;
}

interface Body {
  readonly resourceMetrics: readonly {
    readonly scopeMetrics: readonly {
      readonly scope: { readonly name: string };
      readonly metrics: readonly OtlpMetric[];
    }[];
  }[];
}

/** A collector that takes metrics in JSON and keeps the last of each. */
export async function startOtlpReceiver(): Promise<OtlpReceiver> {
  const scopes: Record<string, Record<string, OtlpMetric>> = {};
  const server = createServer(async (request, response) => {
    const { resourceMetrics } = JSON.parse((await request.toArray()).join('')) as Body;
    for (const { scope, metrics } of resourceMetrics.flatMap(({ scopeMetrics }) => scopeMetrics)) {
      scopes[scope.name] ??= {};
      for (const metric of metrics) Object.assign(scopes[scope.name] as object, { [metric.name]: metric });
    }
    response.setHeader('content-type', 'application/json').end('{}');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/metrics`,
    metricsOf: (scope) => scopes[scope] ?? {},
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}
