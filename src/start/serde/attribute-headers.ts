import type { Config } from '../../config/config.ts';
import { attributeHeaders } from '../../envelope/cloud-attributes.ts';

/** The headers that records have for the attributes of CloudEvents, which not every one of them has. */
export function attributeHeadersOf({ serde: { envelope, cloudevents } }: Config): readonly string[] {
  return envelope === 'cloudevents' && cloudevents.mode === 'binary' ? attributeHeaders : [];
}
