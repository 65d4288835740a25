/** `require(__dirname + '/x.js')`, and the same by `path.join` or `path.resolve`, with one literal path. */
const byFolder =
  /\brequire\(\s*(?:__dirname\s*\+\s*(['"])\/([^'"\\\n]+)\1|(?:path\.)?(?:join|resolve)\(\s*__dirname\s*,\s*(['"])(?:\.?\/)?([^'"\\\n]+)\3\s*\))\s*\)/g;

/**
 * Old packages name a file beside them by its whole path. In a bundle there is no such path; the relative one says the
 * same, and esbuild finds it.
 */
export function withRelativeRequires(contents: Buffer): Buffer {
  if (!contents.includes('__dirname')) return contents;
  const text = contents.toString('utf8');
  const changed = text.replaceAll(
    byFolder,
    // With its own quotes: it may be inside a text in the other kind of quotes.
    (_, one: string | undefined, added: string | undefined, other: string | undefined, joined?: string) => {
      const quote = one ?? other ?? '"';
      return `require(${quote}./${added ?? joined}${quote})`;
    },
  );
  return changed === text ? contents : Buffer.from(changed);
}
