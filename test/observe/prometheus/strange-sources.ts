import type { MetricSources } from '../../../src/observe/metrics.ts';
import { filledSources } from '../metric-sources.ts';

/** Event types that a text format could stumble over. */
export const strangeEventTypes: readonly string[] = [
  '',
  'a"b\\c\nd\re',
  '{}=,',
  '\u2028é😀',
  '# HELP x y',
  '\u0000',
  '\\n',
  '"} 1\nsvc_events_lost_total{eventType="fake',
  ' ends in a space ',
  'ends in a line feed\n',
];

/** One of everything, and events of all these types. */
export function strangeSources(): MetricSources {
  const sources = filledSources();
  for (const eventType of strangeEventTypes) {
    sources.ledger.open(eventType).close('published');
    sources.durations.record(eventType, 0.01);
  }
  return sources;
}
