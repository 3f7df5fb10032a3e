export interface LoadOnce<T> {
  (): Promise<T>;
  /** What is there or on its way; `undefined` where nobody has asked yet, or the last attempt failed. */
  started(): Promise<T> | undefined;
}

/** What takes long to make, made at its first use and kept. A failure is not kept: who asks next tries again. */
export function loadOnce<T>(load: () => Promise<T>): LoadOnce<T> {
  let loading: Promise<T> | undefined;
  const get = (): Promise<T> => {
    loading ??= load().catch((error: unknown) => {
      loading = undefined;
      throw error;
    });
    return loading;
  };
  return Object.assign(get, { started: () => loading });
}
