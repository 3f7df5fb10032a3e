/**
 * A browser under LANG=C.UTF-8 names its language `en-US@posix`, which no `Intl` takes: uPlot asks for it when it is loaded, and the page
 * would stay blank (leeoniya/uPlot#1053). Imported before anything else.
 */
try {
  new Intl.NumberFormat(navigator.language);
} catch {
  Object.defineProperty(navigator, 'language', { value: 'en-US', configurable: true });
}
