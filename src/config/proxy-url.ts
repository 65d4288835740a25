/** Throws where the text is no URL of a proxy, without showing it. */
export function readProxyUrl(text: string): URL {
  const url = URL.parse(text);
  if (url === null || url.protocol !== 'http:' || url.hostname === '')
    throw new Error('expected http://host:port or http://user:password@host:port');
  if (url.pathname !== '/' || url.search !== '' || url.hash !== '')
    throw new Error('expected nothing behind the port');
  try {
    decodeURIComponent(url.username + url.password);
  } catch {
    throw new Error('user and password are to be percent-encoded');
  }
  return url;
}
