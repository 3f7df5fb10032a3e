import { SvcError } from '../errors.ts';
import type { Published, PublishOptions } from './producer.ts';
import { runningService } from './running-service.ts';

/**
 * Publishes one event from application code: `await publish({ orderId: 7 }, { eventType: 'ORDER_CREATED' })`.
 *
 * Resolves when the broker has acknowledged it, in both settings of `svc.broker.async-mode`.
 *
 * @throws SvcError `SVC_PUBLISH_NOT_RUNNING` where svc was not started, `SVC_PUBLISH_LOST` when no tier has stored the event,
 * `SVC_PROTECT_…` when the payload cannot be published, `SVC_PUBLISH_OPTIONS` for an option that is wrong or unknown (nothing
 * is sent), `SVC_PUBLISH_TIMEOUT` when there is no outcome after `timeoutMs`, by default `svc.broker.delivery-timeout-ms`:
 * the event is on its way still, and may arrive.
 */
export async function publish(payload: unknown, options?: PublishOptions): Promise<Published> {
  const service = runningService.current;
  if (service === undefined) {
    throw new SvcError(
      'SVC_PUBLISH_NOT_RUNNING',
      'svc is not running: start the application with node --import svc/register',
    );
  }
  return service.producer.publish(payload, options);
}
