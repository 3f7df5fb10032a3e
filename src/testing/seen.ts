import { AssertionError } from 'node:assert';
import { SvcError } from '../ground/errors.ts';
import { runningService } from '../publish/api/running-service.ts';

/**
 * What was seen in this process, `all` of it: an assertion must not pass, and nobody wait, where nothing can be seen.
 *
 * @throws SvcError `SVC_PUBLISH_NOT_RUNNING` where that is because svc does not run; `AssertionError` where it publishes to another
 * broker than `needs`.
 */
export function seen<T>(all: readonly T[], needs?: string): readonly T[] {
  if (all.length > 0) return all;
  const service = runningService.current;
  if (service === undefined) {
    throw new SvcError(
      'SVC_PUBLISH_NOT_RUNNING',
      "svc is not running in this process, so svc/testing sees no events: start the tests with NODE_OPTIONS='--import svc/register' (docs/testing.md); where that is done, a line of svc above says why it did not start",
    );
  }
  if (needs !== undefined && service.brokerClient !== needs) {
    throw new AssertionError({
      message: `svc publishes with svc.broker.client: ${service.brokerClient}, and svc/testing sees what it publishes with ${needs}: set SVC_BROKER_CLIENT=${needs} for the tests`,
    });
  }
  return all;
}
