import { json, problem, type Reply } from '../reply.ts';
import type { ActionContext as Context } from './action.ts';

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
