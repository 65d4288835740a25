const codePattern = /\.[mc]?[jt]s$/;
const appFilePattern = /\.app\.[mc]?[jt]s$/;

/** Where repositories of components have the file of an app. */
export function isAppPath(path: string): boolean {
  return appFilePattern.test(path) && !path.split('/').includes('node_modules');
}

/** Where repositories of components have components: below `actions` or `sources`, and not below `common`. */
export function isComponentPath(path: string): boolean {
  if (!codePattern.test(path) || /\.d\.[mc]?ts$|\.(?:test|spec|app)\.|(?:^|\/)test-event\./.test(path))
    return false;
  const folders = path.split('/').slice(0, -1);
  return (
    (folders.includes('actions') || folders.includes('sources')) &&
    !folders.includes('common') &&
    !folders.includes('node_modules')
  );
}
