/**
 * A browser under LANG=C.UTF-8 reports the language `en-US@posix`, which `Intl` rejects. uPlot uses it when it loads, and the
 * page would stay blank (leeoniya/uPlot#1053). Imported before anything else.
 */
try {
  new Intl.NumberFormat(navigator.language);
} catch {
  Object.defineProperty(navigator, 'language', { value: 'en-US', configurable: true });
}
