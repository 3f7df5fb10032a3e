import { readFile } from 'node:fs/promises';
import { json, problem, type Reply } from './reply.ts';
import type { Route, RouteContext } from './route.ts';

// the page for people, `/actuator/svc`. Its files are built from `console/` at the top, and read when they are asked for.

/** Nothing from elsewhere, nothing inline, in no frame. */
const contentSecurityPolicy =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/** Beside the files of the package; beside the sources lies what was built last. */
const folder = new URL(
  import.meta.url.endsWith('.ts') ? '../../../dist/console/' : './console/',
  import.meta.url,
);

export const consoleRoutes: readonly Route[] = [
  {
    ...{ name: 'console', path: '/actuator/svc', ids: ['svc-console'], method: 'GET', open: true },
    ...{ isPage: true, link: 'svc-console', handle: file('console.html', 'text/html') },
  },
  {
    ...{ name: 'consoleScript', path: '/actuator/svc/console.js', ids: ['svc-console'], method: 'GET' },
    ...{ open: true, handle: file('console.js', 'text/javascript') },
  },
  {
    ...{ name: 'consoleStyle', path: '/actuator/svc/console.css', ids: ['svc-console'], method: 'GET' },
    ...{ open: true, handle: file('console.css', 'text/css') },
  },
  {
    ...{ name: 'consoleDocument', path: '/actuator/svc/console.json', ids: ['svc-console'], method: 'GET' },
    handle: document,
  },
];

function file(name: string, contentType: string): Route['handle'] {
  return async () => ({
    status: 200,
    contentType: `${contentType}; charset=utf-8`,
    body: await readFile(new URL(name, folder), 'utf8'),
    headers: { 'content-security-policy': contentSecurityPolicy, 'referrer-policy': 'no-referrer' },
  });
}

async function document(context: RouteContext): Promise<Reply> {
  const { controls, query, routes } = context;
  const after = query.get('after') ?? '0';
  if (!/^\d{1,15}$/.test(after)) return problem(400, 'after must be a time in milliseconds.', {}, 'after');
  const actions = routes.map(({ action }) => action).filter((action) => action !== undefined);
  return json(context, 200, { ...(await controls.console(Number(after))), actions });
}
