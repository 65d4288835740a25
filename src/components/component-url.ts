/**
 * The URL of the source text for a URL that users copy: pages of a file on GitHub and GitLab become the raw
 * file. `github.com/<owner>/<repository>/<path>` without `blob/<branch>` means the default branch.
 */
export function rawFileUrl(address: string): string {
  const url = new URL(address);
  const parts = url.pathname.split('/').filter((part) => part !== '');
  if (url.hostname === 'github.com' || url.hostname === 'www.github.com') {
    const [owner, repository, view, branch, ...path] = parts;
    if (owner === undefined || repository === undefined || view === undefined) return address;
    const rest =
      view === 'blob' || view === 'raw' ? [branch ?? 'HEAD', ...path] : ['HEAD', ...parts.slice(2)];
    return `https://raw.githubusercontent.com/${[owner, repository.replace(/\.git$/, ''), ...rest].join('/')}`;
  }
  if (url.hostname === 'gitlab.com') {
    return `https://gitlab.com${url.pathname.replace('/-/blob/', '/-/raw/')}`;
  }
  return address;
}

const repositoryHosts = new Set(['github.com', 'www.github.com', 'raw.githubusercontent.com', 'gitlab.com']);

/** Old components require files of other repositories by their page: the one kind of URL an import may name. */
export function isRepositoryUrl(address: string): boolean {
  return (
    URL.canParse(address) &&
    new URL(address).protocol === 'https:' &&
    repositoryHosts.has(new URL(address).hostname)
  );
}

/** Paths to try for a relative import, in order: as written, with an extension, as a folder. */
export function candidatePaths(path: string, importer: string): string[] {
  const own = /\.[mc]?[jt]s$/.exec(importer)?.[0];
  const extensions = [
    ...new Set([...(own === undefined ? [] : [own]), '.ts', '.mts', '.mjs', '.js', '.cjs', '.json']),
  ];
  if (path.endsWith('/'))
    return ['.ts', '.mts', '.mjs', '.js'].map((extension) => `${path}index${extension}`);
  // TypeScript writes the extension that its output has.
  if (/\.[mc]?js$/.test(path)) return [path, path.replace(/js$/, 'ts')];
  if (/\.(?:[mc]?ts|json)$/.test(path)) return [path];
  return [
    // An asset; names such as `rss.app` look like one.
    ...(/\.\w+$/.test(path.slice(path.lastIndexOf('/'))) ? [path] : []),
    ...extensions.map((extension) => path + extension),
    ...['.ts', '.mts', '.mjs', '.js'].map((extension) => `${path}/index${extension}`),
  ];
}
