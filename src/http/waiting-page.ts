import { createHash } from 'node:crypto';

const style = `
:root { color-scheme: light dark; }
body { margin: 0; font: 16px/1.5 system-ui, sans-serif; display: grid; place-items: center; min-height: 100vh; }
main { max-width: 44rem; padding: 1.5rem; }
h1 { font-size: 1.3rem; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font-size: .8rem; max-height: 50vh; overflow: auto; }
`;

const policy = `default-src 'none'; style-src 'sha256-${createHash('sha256').update(style).digest('base64')}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`;

/** Shown while the dashboard is built, once for each version; reloads itself. Or what went wrong, and what to do. */
export function waitingPage(look: { state: 'building' } | { state: 'failed'; message: string }): {
  html: string;
  policy: string;
} {
  const body =
    look.state === 'building'
      ? '<h1>The dashboard is being prepared</h1>\n<p role="status">This happens once for each version and takes a few seconds. The page opens by itself; the API is there already.</p>'
      : `<h1>The dashboard could not be prepared</h1>
<p role="alert">The API works all the same. Reload this page to try again; <code>npm ci</code> puts missing files back.</p>
<pre>${text(look.message)}</pre>`;
  const head = look.state === 'building' ? '<meta http-equiv="refresh" content="1">' : '';
  const html = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Millrace</title>
${head}
<style>${style}</style>
</head>
<body>
<main>
${body}
</main>
</body>
</html>
`;
  return { html, policy };
}

function text(value: string): string {
  return value.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
