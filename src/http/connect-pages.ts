import { createHash } from 'node:crypto';
import type { CustomField } from '#accounts/apps/app-definition.ts';

/** A page contains everything it needs: it has no scripts and loads nothing. */
const style = `
:root { color-scheme: light dark; --line: #8886; --accent: #1a5fb4; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --accent: #78aeed; --bad: #ff8a80; } }
* { box-sizing: border-box; }
body { margin: 0; font: 16px/1.5 system-ui, sans-serif; display: grid; place-items: center; min-height: 100vh; }
main { width: 100%; max-width: 32rem; padding: 1.5rem; }
h1 { font-size: 1.4rem; line-height: 1.25; margin: 0 0 .75rem; overflow-wrap: anywhere; }
p { margin: .5rem 0; overflow-wrap: anywhere; }
label { display: block; margin-top: 1.1rem; font-weight: 600; }
.hint { font-size: .875rem; opacity: .8; margin: .1rem 0 .35rem; white-space: pre-line; }
.problem { color: var(--bad); font-weight: 600; margin: .3rem 0 0; }
input, textarea { width: 100%; font: inherit; padding: .6rem .7rem; border: 1px solid var(--line); border-radius: .4rem;
  background: transparent; color: inherit; }
textarea { font-family: ui-monospace, monospace; font-size: .875rem; min-height: 8rem; }
[aria-invalid] { border-color: var(--bad); }
button, .button { display: inline-block; margin-top: 1.5rem; padding: .65rem 1.2rem; border: 0; border-radius: .4rem;
  font: inherit; font-weight: 600; background: var(--accent); color: Canvas; text-decoration: none; cursor: pointer; }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
`;

/** The policy of every page here. Forms go to the service itself; the way on from there is a link. */
export const pageHeaders = {
  'content-type': 'text/html; charset=utf-8',
  'content-security-policy': `default-src 'none'; style-src 'sha256-${createHash('sha256').update(style).digest('base64')}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'`,
  'referrer-policy': 'no-referrer',
  'cache-control': 'no-store',
  'x-robots-tag': 'noindex',
};

/** The page that asks for consent, with a form for fields without a value. The form is posted to the URL of the page. */
export function formPage(form: {
  appName: string;
  description: string;
  asks: string;
  asked: readonly CustomField[];
  values: Readonly<Record<string, string>>;
  problems: ReadonlyMap<string, string>;
  formToken: string;
  goesOn: boolean;
  inputName: (field: CustomField) => string;
}): string {
  const { appName, goesOn } = form;
  const inputs = form.asked.map((field) =>
    input(field, {
      name: form.inputName(field),
      value: form.values[field.name] ?? (field.secret ? '' : (field.default ?? '')),
      problem: form.problems.get(field.name),
    }),
  );
  const wrong =
    form.problems.size === 0
      ? ''
      : `<p class="problem" role="alert">Something is missing: see below. Secrets have to be typed again.</p>`;
  return page(
    `Connect ${appName}`,
    `${form.description === '' ? '' : `<p>${text(form.description)}</p>\n`}<p>${text(form.asks)} Continue only if you expect this.</p>${wrong}
<form method="post" autocomplete="off">
<input type="hidden" name="form_token" value="${text(form.formToken)}">
${inputs.join('\n')}
<button type="submit">${goesOn ? `Continue to ${text(appName)}` : 'Connect'}</button>
</form>`,
  );
}

/** Leads on after a form: a redirect would be held back by browsers that apply `form-action` to it. */
export function goOnPage({ title, label, url }: { title: string; label: string; url: string }): string {
  return page(
    title,
    `<p>One moment …</p><p><a class="button" href="${text(url)}" rel="noreferrer">${text(label)}</a></p>`,
    `<meta http-equiv="refresh" content="0;url=${text(url)}">`,
  );
}

export function connectedPage({
  appName,
  name,
  isNew,
}: {
  appName: string;
  name: string | null;
  isNew: boolean;
}): string {
  const what = name === null || name === '' ? 'The account' : `The account “${text(name)}”`;
  const how = isNew ? 'connected' : 'connected again';
  return page(`${appName} is connected`, `<p>${what} is ${how}. You can close this window.</p>`);
}

/** What happened, and what to do. */
export function problemPage(message: string): string {
  return page('No account was connected', `<p role="alert">${text(message)}</p>`);
}

function input(
  field: CustomField,
  { name, value, problem }: { name: string; value: string; problem: string | undefined },
): string {
  const id = text(name);
  const described = [
    field.description === '' ? '' : `${id}_hint`,
    problem === undefined ? '' : `${id}_problem`,
  ].join(' ');
  const common = `id="${id}" name="${id}" spellcheck="false" autocapitalize="off" aria-describedby="${described.trim()}"${problem === undefined ? '' : ' aria-invalid="true"'}`;
  const control = isLong(field)
    ? `<textarea ${common} autocomplete="off">\n${text(value)}</textarea>`
    : `<input ${common} ${field.secret ? 'type="password" autocomplete="new-password"' : 'type="text" autocomplete="off"'} value="${text(value)}">`;
  const optional = field.optional || field.default !== undefined ? ' (optional)' : '';
  return `<label for="${id}">${text(field.label)}${optional}</label>
${field.description === '' ? '' : `<p class="hint" id="${id}_hint">${text(field.description)}</p>`}
${control}
${problem === undefined ? '' : `<p class="problem" id="${id}_problem">${text(problem)}</p>`}`;
}

/** Several lines: an input of one line would join them. */
function isLong({ name, description }: CustomField): boolean {
  return (
    /\bPEM\b/.test(description) ||
    /(private|ssh|rsa)_?key$|certificate|(^|_)(pem|ca|cert)$|service_account|json/i.test(name)
  );
}

function page(title: string, body: string, head = ''): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${text(title)}</title>
${head}
<style>${style}</style>
</head>
<body>
<main>
<h1>${text(title)}</h1>
${body}
</main>
</body>
</html>
`;
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/** Any text as it is shown, in content and in quoted attributes. */
function text(value: string): string {
  return value.replace(/[&<>"']/g, (character) => entities[character] ?? '');
}
