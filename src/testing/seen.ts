import { SvcError } from '../ground/errors.ts';
import { runningService } from '../publish/api/running-service.ts';

/**
 * What was seen in this process, `all` of it: an assertion must not pass, and nobody wait, where there is nothing to be seen.
 *
 * @throws SvcError `SVC_PUBLISH_NOT_RUNNING` where that is because svc does not run.
 */
export function seen<T>(all: readonly T[]): readonly T[] {
  if (all.length > 0 || runningService.current !== undefined) return all;
  throw new SvcError(
    'SVC_PUBLISH_NOT_RUNNING',
    "svc is not running in this process, so svc/testing sees no events: start the tests with NODE_OPTIONS='--import svc/register' (docs/testing.md); where that is done, a line of svc above says why it did not start",
  );
}
