/** Throws where the text is no URL of a proxy, without showing it. */
export function readProxyUrl(text: string): URL {
  const url = URL.parse(text);
  if (url === null || url.protocol !== 'http:' || url.hostname === '')
    throw new Error('expected http://host:port or http://user:password@host:port');
  if (/\s/.test(text)) throw new Error('expected a URL without spaces and line ends');
  if (url.pathname !== '/' || url.search !== '' || url.hash !== '')
    throw new Error('expected nothing behind the port');
  // A URL does not tell the port that is the usual one of its protocol.
  if (!/:\d+\/?$/.test(text) || url.port === '0')
    throw new Error('expected a port from 1 to 65535 behind the host, as in http://host:3128');
  let user: string;
  try {
    user = decodeURIComponent(url.username);
    decodeURIComponent(url.password);
  } catch {
    throw new Error('user and password are to be percent-encoded');
  }
  if (user.includes(':')) throw new Error('expected a user without a colon, which Basic cannot carry');
  return url;
}
