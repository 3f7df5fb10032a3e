import type { Controls } from './controls.ts';
import type { JsonBody } from './json-body.ts';
import { json, problem, type Reply } from './reply.ts';

interface Context {
  readonly controls: Controls;
  readonly jsonType: string;
  readonly hasBody: boolean;
  /** Who asks, for the log. */
  readonly by: string;
  readonly readBody: () => Promise<JsonBody>;
}

/** `POST /actuator/svc/circuit-breaker/reset`: closes both breakers. */
export async function resetBreakers(context: Context): Promise<Reply> {
  return (await refusedBody(context)) ?? json(context, 200, context.controls.resetBreakers(context.by));
}

/** `POST /actuator/svc/keys/invalidate`: for a key that must not be used any more. */
export async function invalidateKeys(context: Context): Promise<Reply> {
  return (
    (await refusedBody(context)) ?? json(context, 200, await context.controls.invalidateKeys(context.by))
  );
}

/** Neither needs a body, and one that comes says nothing. */
async function refusedBody({ hasBody, readBody }: Context): Promise<Reply | undefined> {
  if (!hasBody) return undefined;
  const body = await readBody();
  if ('refusal' in body) return body.refusal;
  return Object.keys(body.fields).length > 0 ? problem(400, 'This action takes no fields.') : undefined;
}
