import type { Context } from '@opentelemetry/api';
import { otelApi } from '../observe/otel-api.ts';
import { boundedText, type ContextScope, rawHeader } from './context-store.ts';

/**
 * One baggage entry: of OpenTelemetry's context where it carries baggage, else of the request's W3C `baggage` header.
 * `null` when there is none, or none fit for an event.
 */
export function baggageEntry(
  name: string,
  scope: ContextScope | undefined,
  active: Context | undefined,
): string | null {
  const api = otelApi();
  const baggage = api?.propagation.getBaggage(active ?? api.context.active());
  if (baggage !== undefined) return boundedText(baggage.getEntry(name)?.value);
  const header = scope === undefined ? null : rawHeader(scope, 'baggage');
  return header === null ? null : boundedText(entryOfHeader(header, name));
}

/** `name=value;property, …`: the first of that name counts; values are percent-encoded. */
function entryOfHeader(header: string, name: string): string | null {
  for (const member of header.split(',')) {
    const equals = member.indexOf('=');
    if (equals < 0 || member.slice(0, equals).trim() !== name) continue;
    const semicolon = member.indexOf(';', equals);
    return percentDecoded(member.slice(equals + 1, semicolon < 0 ? undefined : semicolon).trim());
  }
  return null;
}

/** `null` when the encoding is broken. */
export function percentDecoded(text: string): string | null {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}
