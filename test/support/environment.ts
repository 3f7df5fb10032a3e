/** Returns what makes the environment of this process what it is now. `process.env` stays the one that Node itself reads. */
export function keepEnvironment(): () => void {
  const kept = { ...process.env };
  return () => {
    for (const name of Object.keys(process.env)) if (!(name in kept)) delete process.env[name];
    Object.assign(process.env, kept);
  };
}
