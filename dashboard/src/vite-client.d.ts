// Styles are imported for their effect.
declare module '*.css';

interface ImportMeta {
  /** Modules whose files fit a pattern, read when their function is called. */
  glob<T>(pattern: string, options: { import: 'default' }): Record<string, () => Promise<T>>;
}
