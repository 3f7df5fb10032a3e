import { createRequire, registerHooks } from 'node:module';
import { pathToFileURL } from 'node:url';

// Loaded before the tests by scripts/latest.ts: what they import of these packages is that of another folder.

const folder = process.env.SVC_LATEST_FOLDER ?? '';
const names = (process.env.SVC_LATEST_PACKAGES ?? '').split(',');
const within = pathToFileURL(`${folder}/`).href;
const requireThere = createRequire(`${within}tests.mjs`);

registerHooks({
  resolve(specifier, context, next) {
    const isOne = names.some((name) => specifier === name || specifier.startsWith(`${name}/`));
    if (!isOne || context.parentURL?.startsWith(within)) return next(specifier, context);
    // What `require` asks for is looked up beside the file that asks, whatever is said here.
    if (context.conditions.includes('require')) return next(requireThere.resolve(specifier), context);
    return next(specifier, { ...context, parentURL: `${within}tests.mjs` });
  },
});
