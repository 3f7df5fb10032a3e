import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gunzipSync } from 'node:zlib';
import protobuf from 'protobufjs';

/** A span as a collector gets it. */
export interface ReceivedSpan {
  readonly service: string;
  /** Name of the instrumentation scope. */
  readonly scope: string;
  readonly name: string;
  readonly kind: 'INTERNAL' | 'SERVER' | 'CLIENT' | 'PRODUCER' | 'CONSUMER';
  readonly traceId: string;
  readonly spanId: string;
  /** Empty for the first span of a trace. */
  readonly parentSpanId: string;
  readonly startNano: bigint;
  readonly endNano: bigint;
}

/** A metric as OTLP/HTTP with JSON carries it; of protobuf only the name is read. */
export interface ReceivedMetric {
  readonly name: string;
  readonly unit?: string;
  readonly sum?: { readonly isMonotonic: boolean; readonly dataPoints: readonly ReceivedPoint[] };
  readonly gauge?: { readonly dataPoints: readonly ReceivedPoint[] };
  readonly histogram?: { readonly dataPoints: readonly ReceivedPoint[] };
}

export interface ReceivedPoint {
  readonly attributes: readonly { readonly key: string; readonly value: { readonly stringValue?: string } }[];
  readonly asInt?: number | string;
  readonly asDouble?: number;
  readonly count?: number | string;
  readonly explicitBounds?: readonly number[];
}

export interface OtlpReceiver {
  /** For `OTEL_EXPORTER_OTLP_ENDPOINT`. */
  readonly endpoint: string;
  readonly spans: readonly ReceivedSpan[];
  /** The metrics of a scope as they were sent last, by name. */
  metricsOf(scope: string): Readonly<Record<string, ReceivedMetric>>;
  close(): Promise<void>;
}

/** Of OpenTelemetry's .proto files what is read here: a reader of protobuf passes over all other fields. */
const definitions = `
  syntax = "proto3";
  message Value { string string_value = 1; }
  message Attribute { string key = 1; Value value = 2; }
  message Resource { repeated Attribute attributes = 1; }
  message Scope { string name = 1; }
  message Span {
    bytes trace_id = 1; bytes span_id = 2; bytes parent_span_id = 4; string name = 5; int32 kind = 6;
    fixed64 start_time_unix_nano = 7; fixed64 end_time_unix_nano = 8;
  }
  message ScopeSpans { Scope scope = 1; repeated Span spans = 2; }
  message ResourceSpans { Resource resource = 1; repeated ScopeSpans scope_spans = 2; }
  message Traces { repeated ResourceSpans resource_spans = 1; }
  message Metric { string name = 1; }
  message ScopeMetrics { Scope scope = 1; repeated Metric metrics = 2; }
  message ResourceMetrics { repeated ScopeMetrics scope_metrics = 2; }
  message Metrics { repeated ResourceMetrics resource_metrics = 1; }`;

const kinds = ['INTERNAL', 'INTERNAL', 'SERVER', 'CLIENT', 'PRODUCER', 'CONSUMER'] as const;

/** As JSON has it; what protobuf reads is brought into the same form. */
interface Traces {
  readonly resourceSpans?: readonly {
    readonly resource?: {
      readonly attributes?: readonly { readonly key: string; readonly value?: { stringValue?: string } }[];
    };
    readonly scopeSpans?: readonly { readonly scope?: { readonly name: string }; readonly spans: Span[] }[];
  }[];
}

interface Span extends Pick<ReceivedSpan, 'traceId' | 'spanId' | 'parentSpanId' | 'name'> {
  readonly kind: number;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
}

interface Metrics {
  readonly resourceMetrics?: readonly {
    readonly scopeMetrics?: readonly {
      readonly scope?: { readonly name: string };
      readonly metrics: readonly ReceivedMetric[];
    }[];
  }[];
}

/** A collector that takes OTLP over HTTP, as protobuf and as JSON, and keeps what it gets. */
export async function startOtlpReceiver(): Promise<OtlpReceiver> {
  const { root } = protobuf.parse(definitions);
  const spans: ReceivedSpan[] = [];
  const scopes: Record<string, Record<string, ReceivedMetric>> = {};
  const take = (request: IncomingMessage, body: Buffer): void => {
    const isJson = request.headers['content-type'] === 'application/json';
    const read = (type: string): unknown => (isJson ? JSON.parse(body.toString()) : decode(root, type, body));
    if (request.url === '/v1/traces') spans.push(...spansOf(read('Traces') as Traces));
    if (request.url !== '/v1/metrics') return;
    const { resourceMetrics = [] } = read('Metrics') as Metrics;
    for (const { scope, metrics } of resourceMetrics.flatMap(({ scopeMetrics = [] }) => scopeMetrics)) {
      const name = scope?.name ?? '';
      scopes[name] = {
        ...scopes[name],
        ...Object.fromEntries(metrics.map((metric) => [metric.name, metric])),
      };
    }
  };
  const server = createServer((request, response) => void receive(request, response, take));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    endpoint: `http://127.0.0.1:${port}`,
    spans,
    metricsOf: (scope) => scopes[scope] ?? {},
    close: () => closed(server),
  };
}

async function receive(
  request: IncomingMessage,
  response: ServerResponse,
  take: (request: IncomingMessage, body: Buffer) => void,
): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const body = Buffer.concat(chunks);
  take(request, request.headers['content-encoding'] === 'gzip' ? gunzipSync(body) : body);
  response.end(request.headers['content-type'] === 'application/json' ? '{}' : '');
}

function closed(server: Server): Promise<void> {
  server.closeAllConnections();
  return new Promise((resolve) => server.close(() => resolve()));
}

function decode(root: protobuf.Root, type: string, body: Buffer): unknown {
  const message = root.lookupType(type).decode(body);
  const plain = message.$type.toObject(message, { longs: String, bytes: Array, arrays: true });
  return JSON.parse(JSON.stringify(plain), (name, value: unknown) =>
    /Id$/.test(name) && Array.isArray(value) ? Buffer.from(value).toString('hex') : value,
  );
}

function spansOf({ resourceSpans = [] }: Traces): ReceivedSpan[] {
  return resourceSpans.flatMap(({ resource, scopeSpans = [] }) => {
    const service = resource?.attributes?.find(({ key }) => key === 'service.name')?.value?.stringValue ?? '';
    return scopeSpans.flatMap(({ scope, spans }) =>
      spans.map(({ traceId, spanId, parentSpanId, name, kind, ...span }) => ({
        service,
        scope: scope?.name ?? '',
        name,
        kind: kinds[kind] ?? 'INTERNAL',
        traceId,
        spanId,
        parentSpanId: parentSpanId ?? '',
        startNano: BigInt(span.startTimeUnixNano),
        endNano: BigInt(span.endTimeUnixNano),
      })),
    );
  });
}
