import type { ActionId, EndpointId } from '../ground/management.ts';
import type { ActionContext } from './actions.ts';
import type { Reply } from './reply.ts';

export interface RouteContext extends ActionContext {
  readonly routes: readonly Route[];
  /** Whether health details may be shown to this request. */
  readonly showDetails: boolean;
  readonly readinessNeedsBroker: boolean;
  /** Of the request target, `?` and all that follows. */
  readonly query: URLSearchParams;
}

export type RouteName =
  | ('metrics' | 'prometheus' | 'actuatorMetrics' | 'metricsReport' | 'info' | 'index' | 'openapi')
  | ('health' | 'ownHealth' | 'liveness' | 'readiness')
  | ('targets' | 'deadLetters' | 'outboxStatistics' | 'recoveryOfDeadLetters' | 'drainOfBackup')
  | ('console' | 'consoleScript' | 'consoleStyle' | 'consoleDocument')
  | ('resetBreakers' | 'invalidateKeys' | 'replayOutbox' | 'recoverDeadLetters' | 'drainBackup');

export interface Route {
  /** Its own, among all of them. */
  readonly name: RouteName;
  readonly path: string;
  /** Exposed when one of these ids is; without ids it always is. */
  readonly ids: readonly EndpointId[];
  readonly method: 'GET' | 'POST';
  /** Of a POST: its name in `management.actions.exclude`. */
  readonly action?: ActionId;
  /** Of an action: whoever may read may try it out. */
  readonly hasDryRun?: true;
  /** Answers without a token, with less in it. */
  readonly open?: true;
  /** What a browser opens: a link on another site leads here, too. It holds no data. */
  readonly isPage?: true;
  /** Name in the index of links. */
  readonly link?: string;
  handle(context: RouteContext): Reply | Promise<Reply>;
}
