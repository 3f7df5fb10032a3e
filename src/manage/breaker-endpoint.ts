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

/** `POST /actuator/svc/circuit-breaker/reset`: closes both breakers. It needs no body, and one that comes says nothing. */
export async function resetBreakers(context: Context): Promise<Reply> {
  if (context.hasBody) {
    const body = await context.readBody();
    if ('refusal' in body) return body.refusal;
    if (Object.keys(body.fields).length > 0) return problem(400, 'A reset takes no fields.');
  }
  return json(context, 200, context.controls.resetBreakers(context.by));
}
