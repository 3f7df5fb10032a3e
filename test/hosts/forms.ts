import type { Fn } from './program.ts';

interface Written {
  readonly text: string;
  /** As a target names it. */
  readonly path: string;
  readonly call: (x: number) => string;
}

interface Form {
  readonly kind: 'any' | 'callback' | 'generator';
  /** Only AFTER_RETURNING: the body does not begin with the call, or its event needs its result. */
  readonly hasOnePhase?: boolean;
  readonly isAsync?: boolean;
  readonly write: (name: string, fn: Fn) => Written;
}

const any = (write: Form['write']): Form => ({ kind: 'any', write });
const asynchronous = (write: Form['write']): Form => ({ ...any(write), isAsync: true });
const generator = (write: Form['write']): Form => ({ kind: 'generator', hasOnePhase: true, write });

function how({ shape, end, when, isHandled, isCached }: Fn, isAsync = false): string {
  const flags = [
    isHandled && ', isHandled: true',
    isCached && ', isCached: true',
    isAsync && ', isAsync: true',
  ]
    .filter(Boolean)
    .join('');
  return `{ shape: '${shape}', end: '${end}', when: '${when}'${flags} }`;
}

const body = (name: string, fn: Fn, isAsync = false): string =>
  `return give('${name}', x, ${how(fn, isAsync)});`;
const called = (text: string, path: string, callee = path): Written => ({
  text,
  path,
  call: (x) => `${callee}(${x})`,
});

/** How a function can be written. */
export const forms: Readonly<Record<string, Form>> = {
  declaration: any((name, fn) => called(`function ${name}(x) { ${body(name, fn)} }\n`, name)),
  exported: any((name, fn) => called(`export function ${name}(x) { ${body(name, fn)} }\n`, name)),
  arrow: any((name, fn) => called(`const ${name} = (x) => { ${body(name, fn)} };\n`, name)),
  async: asynchronous((name, fn) => called(`async function ${name}(x) { ${body(name, fn, true)} }\n`, name)),
  asyncArrow: asynchronous((name, fn) =>
    called(`export const ${name} = async (x) => giveLater('${name}', x, ${how(fn, true)});\n`, name),
  ),
  method: any((name, fn) =>
    called(
      `const ${name}o = { secret: 7, m(x) { void this.secret.toFixed(); ${body(name, fn)} } };\n`,
      `${name}o.m`,
    ),
  ),
  prototype: asynchronous((name, fn) =>
    called(
      `class ${name}C { #secret = 7; async m(x) { this.#secret++; ${body(name, fn, true)} } }\n`,
      `${name}C.prototype.m`,
      `new ${name}C().m`,
    ),
  ),
  inherited: any((name, fn) =>
    called(
      `class ${name}C { m(x) { ${body(name, fn)} } }\nclass ${name}D extends ${name}C { m(x) { return super.m(x); } }\n`,
      `${name}C.prototype.m`,
      `new ${name}D().m`,
    ),
  ),
  static: any((name, fn) =>
    called(
      `class ${name}C { static secret = 7; static m(x) { this.secret++; ${body(name, fn)} } }\n`,
      `${name}C.m`,
    ),
  ),
  field: any((name, fn) =>
    called(
      `class ${name}C { #secret = 7; m = (x) => { this.#secret++; ${body(name, fn)} }; }\n`,
      `${name}C.prototype.m`,
      `new ${name}C().m`,
    ),
  ),
  behindAccessor: any((name, fn) =>
    called(
      `class ${name}C { get m() { return (x) => this.n(x); } n(x) { ${body(name, fn)} } }\n`,
      `${name}C.prototype.n`,
      `new ${name}C().m`,
    ),
  ),
  recursive: any((name, fn) =>
    called(
      `function ${name}(x, depth = 2) { return depth > 0 ? ${name}(x, depth - 1) : give('${name}', x, { ...${how(fn)}, times: 3 }); }\n`,
      name,
    ),
  ),
  callback: {
    kind: 'callback',
    write: (name, fn) => ({
      text: `function ${name}(x, done) { return answer('${name}', x, done, ${how(fn)}); }\n`,
      path: name,
      call: (x) => `${name}(${x}, done)`,
    }),
  },
  generator: generator((name, fn) =>
    called(`function* ${name}(x) { return yield* steps('${name}', x, ${how(fn)}); }\n`, name),
  ),
  asyncGenerator: generator((name, fn) =>
    called(`async function* ${name}(x) { return yield* asyncSteps('${name}', x, ${how(fn)}); }\n`, name),
  ),
  constructor: any((name, fn) =>
    called(`function ${name}(x) { construct('${name}', x, this, ${how(fn)}); }\n`, name, `new ${name}`),
  ),
  superclass: any((name, fn) =>
    called(
      `function ${name}(x) { construct('${name}', x, this, ${how(fn)}); }\nclass ${name}D extends ${name} { #own = 1; constructor(x) { super(x); this.own = this.#own; } }\n`,
      name,
      `new ${name}D`,
    ),
  ),
};
