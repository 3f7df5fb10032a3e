import { readFileSync } from 'node:fs';
import { ownFunctions } from '../../capture/source/find/own-functions.ts';
import { locate } from '../../capture/source/locate.ts';
import { lineAt } from '../../capture/source/parse-text.ts';
import { isProblem } from '../../capture/source/wrapper-place.ts';
import { WrongUse } from '../wrong-use.ts';
import { eventTypeOfCommand } from './command-names.ts';
import type { NamedTarget } from './config-text.ts';
import { offerOf } from './payload.ts';

/**
 * What `--target ./lib/orders.ts#createOrder=ORDER_CREATED` names, with what its function offers. The event type may be left out.
 *
 * @throws WrongUse
 */
export function namedTarget(text: string, folder: string): NamedTarget {
  const [, module = '', path = '', given] = /^(.+)#([^#=]+)(?:=(.+))?$/.exec(text) ?? [];
  if (module === '' || path === '')
    throw new WrongUse(
      '--target takes <module>#<function>[=<event type>], as ./src/orders.ts#createOrder=ORDER_CREATED',
    );
  const eventType = given ?? eventTypeOfCommand(path, module) ?? constantOf(path);
  const located = locate(module, folder);
  if (isProblem(located)) throw new WrongUse(`--target ${text}: ${located.problem}`);
  const [file] = 'paths' in located ? located.paths : [];
  const plain = { module, path, eventType, payload: undefined, key: undefined, leftOut: [] };
  if (file === undefined) return plain;
  const source = readFileSync(file, 'utf8');
  const { program, functions } = ownFunctions(file, source);
  const found = functions.find((each) => each.path === path);
  // A form that is found by its path alone, as `createRepository().insert`: whether it is there is said before it is written.
  if (found === undefined || program === undefined) return plain;
  const noun = eventType.replace(/_[^_]+$/, '');
  return { ...plain, ...offerOf(found.node, program, noun), line: lineAt(source, found.node.start) };
}

/** `OrderService.prototype.mark` as `ORDER_SERVICE_MARK`. */
function constantOf(path: string): string {
  return path
    .replace(/\bprototype\b/g, '')
    .replace(/([a-z0-9])([A-Z])/g, '$1_$2')
    .replace(/[^A-Za-z0-9]+/g, '_')
    .replace(/^_|_$/g, '')
    .toUpperCase();
}
