import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import ts from 'typescript';

const root = resolve(import.meta.dirname, '..');
const { exports: entries } = JSON.parse(readFileSync(resolve(root, 'package.json'), 'utf8')) as {
  exports: Record<string, string | Record<'import' | 'require', { types: string }>>;
};

describe('the types of the package', function () {
  this.timeout(60_000);

  // A declaration that another one names and that is not there makes its types `any`, or takes fields away, without a word.
  for (const form of ['import', 'require'] as const) {
    it(`of each entry are whole: ${form}`, () => {
      const files = Object.values(entries)
        .filter((entry) => typeof entry !== 'string')
        .map((entry) => resolve(root, entry[form].types));
      const program = ts.createProgram(files, {
        module: ts.ModuleKind.NodeNext,
        moduleResolution: ts.ModuleResolutionKind.NodeNext,
        target: ts.ScriptTarget.ES2022,
        strict: true,
        noEmit: true,
        types: ['node'],
      });
      const found = files.flatMap((file) => {
        const declared = program.getSourceFile(file);
        return declared === undefined ? [`${file} is not there`] : [];
      });
      const wrong = program
        .getSourceFiles()
        .filter(({ fileName }) => fileName.startsWith(`${root}/dist/`))
        .flatMap((file) => program.getSemanticDiagnostics(file))
        .map(
          ({ file, messageText }) =>
            `${file?.fileName}: ${ts.flattenDiagnosticMessageText(messageText, ' ')}`,
        );
      assert.deepEqual([...found, ...wrong], []);
    });
  }
});
