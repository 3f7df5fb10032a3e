import { SvcError } from '../../ground/errors.ts';

// A variable: type checkers and bundlers must not require an optional peer.
const packageName: string = '@platformatic/kafka';

/**
 * The part of the package that a feature needs. Rejects with an `SvcError` that says how to install it.
 *
 * @param user the feature
 */
export async function loadPlatformatic<Part>(user: string): Promise<Part> {
  try {
    return (await import(packageName)) as Part;
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const missing = code === 'ERR_MODULE_NOT_FOUND' && message.includes(`'${packageName}'`);
    throw new SvcError(
      'SVC_ADAPTERS_PACKAGE_MISSING',
      missing
        ? `${user} needs the package ${packageName}, which is not installed: npm install ${packageName}`
        : `the package ${packageName} could not be loaded (${code ?? message.split('\n')[0]})`,
    );
  }
}
