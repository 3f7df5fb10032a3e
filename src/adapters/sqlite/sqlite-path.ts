import { badUrl } from '../../outbox/store-error.ts';

export function pathOf(url: string): string {
  const path = /^sqlite:(?:\/\/(?=\/))?(.+)$/s.exec(url)?.[1];
  if (path === undefined) throw badUrl('for SQLite it is sqlite: and the path of a file');
  return path;
}
