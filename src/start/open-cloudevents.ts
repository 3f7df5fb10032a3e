import type { Config } from '../config/config.ts';
import { attributeHeaders, type Source } from '../envelope/envelope.ts';
import { createCloudEventsSerializer } from '../serialize/cloudevents.ts';
import type { Serializer } from '../serialize/serializer.ts';

/** CloudEvents as a configuration has them. */
export function openCloudEvents({ serde }: Config, service: Source): Serializer {
  const { mode, source = sourceOf(service) } = serde.cloudevents;
  return createCloudEventsSerializer({ mode, source });
}

/** A path of the service's name: `/orders`, `/@acme/orders`. */
function sourceOf({ serviceName }: Source): string {
  const parts = (serviceName ?? 'unknown_service').split('/').filter((part) => part !== '');
  const path = parts.map((part) => encodeURIComponent(part.toWellFormed()).replaceAll('%40', '@'));
  return `/${path.join('/')}`;
}

/** The headers that records have for the attributes of CloudEvents, which not every one of them has. */
export function attributeHeadersOf({ serde: { envelope, cloudevents } }: Config): readonly string[] {
  return envelope === 'cloudevents' && cloudevents.mode === 'binary' ? attributeHeaders : [];
}
