import assert from 'node:assert/strict';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';

const root = resolve(import.meta.dirname, '../..');
const pages = globSync(['*.md', 'docs/**/*.md', 'examples/*/README.md'], { cwd: root });

/** As GitHub makes the anchors of headings. */
function anchorsOf(page: string): string[] {
  const text = readFileSync(page, 'utf8').replace(/^```[\s\S]*?^```/gm, '');
  return [...text.matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) =>
    heading
      .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\s_-]/gu, '')
      .trim()
      .replace(/\s/g, '-'),
  );
}

/** Words in a row that two pages may share, outside code, headings and the addresses of links. */
const MAX_SHARED = 11;

describe('pages for users', () => {
  it('no two share more than eleven words in a row', () => {
    const first = new Map<string, string>();
    const repeated = new Set<string>();
    for (const page of pages) {
      if (/internals|architecture|^examples/.test(page)) continue;
      const text = readFileSync(join(root, page), 'utf8')
        .replace(/^ *```[\s\S]*?^ *```/gm, ' ¦ ')
        .replace(/^#.*$/gm, ' ¦ ')
        .replace(/\]\([^)]*\)/g, ']');
      const words = text.toLowerCase().match(/¦|[\p{L}\p{N}_.%-]*[\p{L}\p{N}_]/gu) ?? [];
      for (let at = 0; at + MAX_SHARED < words.length; at += 1) {
        const run = words.slice(at, at + MAX_SHARED + 1).join(' ');
        if (run.includes('¦')) continue;
        const other = first.get(run) ?? page;
        if (other !== page) repeated.add(`${other}, ${page}: ${run}`);
        first.set(run, other);
      }
    }
    assert.deepEqual([...repeated], []);
  });
});

describe('links of the documents', () => {
  for (const page of pages)
    it(`${page.replaceAll('\\', '/')}: each leads to a file and a heading that are there`, () => {
      const text = readFileSync(join(root, page), 'utf8').replace(/^```[\s\S]*?^```/gm, '');
      const broken = [...text.matchAll(/\]\(([^)\s]+)\)/g)]
        .map(([, link = '']) => link)
        .filter((link) => !/^[a-z]+:/.test(link))
        .filter((link) => {
          const [path = '', anchor] = link.split('#');
          const file = path === '' ? join(root, page) : join(root, dirname(page), path);
          if (!existsSync(file)) return true;
          return anchor !== undefined && file.endsWith('.md') && !anchorsOf(file).includes(anchor);
        });
      assert.deepEqual(broken, []);
    });

  it('the index names each page', () => {
    const index = readFileSync(join(root, 'docs/README.md'), 'utf8');
    const missing = globSync('*.md', { cwd: join(root, 'docs') }).filter(
      (page) => page !== 'README.md' && !index.includes(`(${page})`),
    );
    assert.deepEqual(missing, []);
  });

  it('the README has at most 100 lines', () => {
    const { length } = readFileSync(join(root, 'README.md'), 'utf8').trimEnd().split('\n');
    assert.ok(length <= 100, `${length}`);
  });
});
