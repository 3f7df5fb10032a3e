import type { Config } from '../config/config.ts';
import { attributeHeaders, type Source } from '../envelope/envelope.ts';
import { createCloudEventsSerializer } from '../serialize/cloudevents.ts';
import type { Serializer } from '../serialize/serializer.ts';

export function openCloudEvents({ serde }: Config, service: Source): Serializer {
  const { mode, source = sourceOf(service) } = serde.cloudevents;
  return createCloudEventsSerializer({ mode, source });
}

/** The service name as a path: `/orders`, `/@acme/orders`. */
function sourceOf({ serviceName }: Source): string {
  const parts = (serviceName ?? 'unknown_service').split('/').filter((part) => part !== '');
  const path = parts.map((part) => encodeURIComponent(part.toWellFormed()).replaceAll('%40', '@'));
  return `/${path.join('/')}`;
}

/** Optional headers of records in CloudEvents binary mode. */
export function attributeHeadersOf({ serde: { envelope, cloudevents } }: Config): readonly string[] {
  return envelope === 'cloudevents' && cloudevents.mode === 'binary' ? attributeHeaders : [];
}
