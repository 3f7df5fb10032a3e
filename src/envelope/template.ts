import type { Severity } from '../severity.ts';
import type { EnvelopeTemplate, Source } from './envelope.ts';

export interface TemplateOptions {
  readonly eventType: string;
  readonly severity: Severity;
  readonly source: Source;
}

/** Serializes once what every event of a target has in common. Made at start, or when a new event type shows up. */
export function createTemplate({ eventType, severity, source }: TemplateOptions): EnvelopeTemplate {
  const { serviceName, serviceVersion, hostname } = source;
  const sourceText = JSON.stringify({ serviceName, serviceVersion, hostname });
  return {
    eventType,
    severity,
    source,
    afterEventId: `,"eventType":${JSON.stringify(eventType)},"occurredAt":"`,
    afterPublishedAt: `","severity":"${severity}","metadata":{"source":${sourceText},"actor":{"userId":`,
  };
}

/** `publish()` takes any event type; more than these are serialized anew each time, so that memory stays bounded. */
const maxKept = 1000;

/** The templates of one service, each made once. */
export function createTemplates(source: Source): (eventType: string, severity: Severity) => EnvelopeTemplate {
  const kept = new Map<string, EnvelopeTemplate>();
  return (eventType, severity) => {
    const key = `${severity} ${eventType}`;
    const known = kept.get(key);
    if (known !== undefined) return known;
    const template = createTemplate({ eventType, severity, source });
    if (kept.size < maxKept) kept.set(key, template);
    return template;
  };
}
