import type { Severity } from '../ground/event-fields.ts';
import type { EnvelopeTemplate, Source } from './envelope.ts';

export interface TemplateOptions {
  readonly eventType: string;
  readonly severity: Severity;
  readonly source: Source;
}

/** Serializes once what every event of a target has in common. Made at start, or when a new event type shows up. */
export function createTemplate({ eventType, severity, source }: TemplateOptions): EnvelopeTemplate {
  const { serviceName, serviceVersion, hostname } = source;
  const actor = ',"actor":{"userId":';
  const sourceText = JSON.stringify({ serviceName, serviceVersion, hostname });
  return {
    eventType,
    severity,
    source,
    // One piece each: V8 would keep a sum as a tree of its parts, and walk through it at each event.
    afterEventId: [',"eventType":', JSON.stringify(eventType), ',"occurredAt":"'].join(''),
    afterPublishedAt: ['","severity":"', severity, '","metadata":{"source":', sourceText, actor].join(''),
  };
}

/** `publish()` takes any event type; more than these are serialized anew each time, so that memory stays bounded. */
const maxKept = 1000;

/** The templates of one service, each made once. */
export function createTemplates(source: Source): (eventType: string, severity: Severity) => EnvelopeTemplate {
  // By names that are there already: a key put together for each event would be hashed for each event.
  const kept = new Map<Severity, Map<string, EnvelopeTemplate>>();
  let keptCount = 0;
  return (eventType, severity) => {
    const known = kept.get(severity)?.get(eventType);
    if (known !== undefined) return known;
    const template = createTemplate({ eventType, severity, source });
    if (keptCount < maxKept) {
      keptCount++;
      const ofSeverity = kept.get(severity) ?? new Map<string, EnvelopeTemplate>();
      kept.set(severity, ofSeverity.set(eventType, template));
    }
    return template;
  };
}
