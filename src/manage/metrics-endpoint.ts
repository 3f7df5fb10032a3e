import type { Controls } from './controls.ts';
import { json, problem, type Reply } from './reply.ts';

interface Context {
  readonly controls: Controls;
  readonly query: URLSearchParams;
  readonly jsonType: string;
}

/** `GET /actuator/svc-metrics`, in the shape that is asked for. */
export async function metricsEndpoint(context: Context): Promise<Reply> {
  const { controls, query } = context;
  const shapes = query.getAll('shape');
  if (shapes.length === 0) return json(context, 200, await controls.metricsReport());
  if (shapes.length > 1 || shapes[0] !== 'flat')
    return problem(400, 'shape must be flat, once, or left out for the whole report.', {}, 'shape');
  return json(context, 200, await controls.flatMetricsReport());
}
