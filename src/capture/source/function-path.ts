/** A parsed `function` of a target: `Orders.open().save` has names `Orders`, `open` and result `save`. */
export interface FunctionPath {
  readonly names: readonly string[];
  /** The path after `()`, inside the factory's result; empty for the result itself. `undefined` without `()`. */
  readonly result: readonly string[] | undefined;
}

const identifier = /^#?[\p{ID_Start}$_][\p{ID_Continue}$\u200c\u200d]*$/u;

export function parseFunctionPath(text: string): FunctionPath | { problem: string } {
  const instance = /^([^#.()]+)#([^#.()]+)$/.exec(text);
  if (instance) return { problem: `write ${instance[1]}.prototype.${instance[2]} instead of ${text}` };
  const calls = text.split('()');
  if (calls.length > 2) return { problem: `"${text}" has more than one (): svc follows only one factory` };
  const [head = '', tail] = calls;
  if (tail !== undefined && tail !== '' && !tail.startsWith('.')) return { problem: notAPath(text) };
  const names = head.split('.');
  const result = tail === undefined ? undefined : tail === '' ? [] : tail.slice(1).split('.');
  const all = [...names, ...(result ?? [])];
  if (!all.every((name) => identifier.test(name))) return { problem: notAPath(text) };
  const hidden = all.find((name) => name.startsWith('#'));
  if (hidden) return { problem: privateMethod(hidden) };
  return { names, result };
}

/** Private methods cannot be replaced from outside: their slots are read-only. */
export function privateMethod(name: string): string {
  return `${name} is private, and private methods cannot be replaced. Name the method that calls it, or wrap the work inside it with publishEvent(options, fn)`;
}

function notAPath(text: string): string {
  return `"${text}" is not the path of a function, such as createOrder, default, OrderService.prototype.create, repo.save or createRepository().insert`;
}
