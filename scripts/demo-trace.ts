import type { ReceivedSpan } from '../test/support/otlp-receiver.ts';

/** The spans of one trace as a tree, a line each: what it is, how long it took, its id. */
export function traceLines(spans: readonly ReceivedSpan[], traceId: string): string[] {
  const own = spans.filter((span) => span.traceId === traceId);
  const isKnown = new Set(own.map(({ spanId }) => spanId));
  const roots = own.filter(({ parentSpanId }) => !isKnown.has(parentSpanId));
  return roots.flatMap((root) => linesOf(root, own, ''));
}

function linesOf(span: ReceivedSpan, all: readonly ReceivedSpan[], indent: string): string[] {
  const { spanId, name, kind, startNano, endNano } = span;
  const ms = (Number(endNano - startNano) / 1e6).toFixed(1);
  const title = `${indent}${kind} ${name}`;
  const below = all
    .filter(({ parentSpanId }) => parentSpanId === spanId)
    .sort((one, other) => Number(one.startNano - other.startNano));
  return [
    `${title.padEnd(40)}${ms.padStart(7)} ms   span ${spanId}`,
    ...below.flatMap((child) => linesOf(child, all, `${indent}   `)),
  ];
}
