/**
 * What tells a secret: the name that it stands under, or its form. The importer and the command line both have this file (`src/imports`, `cli`),
 * because they share no code; a test compares them.
 */

/** Forms of keys and tokens, found anywhere in a text. */
const tokenForms = [
  '(?:sk|rk|pk)_(?:live|test)_\\w{10,}',
  'sk-(?=[\\w-]*[0-9A-Z])[\\w-]{20,}',
  'whsec_[\\w+/=]{20,}',
  'xox[abeprs]-[\\w-]{10,}',
  'xapp-[\\w-]{10,}',
  'gh[opsur]_\\w{20,}',
  'github_pat_\\w{20,}',
  'glpat-[\\w-]{15,}',
  'A(?:KI|SI)A[0-9A-Z]{16}',
  'AIza[\\w-]{30,}',
  'ya29\\.[\\w-]{20,}',
  'SG\\.[\\w-]{10,}\\.[\\w-]{10,}',
  'shp(?:at|ca|pa|ss)_\\w{20,}',
  'npm_[A-Za-z0-9]{30,}',
  'pypi-[\\w-]{20,}',
  'dop_v1_[0-9a-f]{40,}',
  'lin_api_\\w{20,}',
  'ntn_\\w{20,}',
  'secret_\\w{40,}',
  'pat\\w{14}\\.[0-9a-f]{40,}',
  'pat-(?:na|eu)\\d-[0-9a-f-]{30,}',
  'key-[0-9a-f]{32}',
  '[0-9a-f]{32}-us\\d{1,2}',
  'xkeysib-[0-9a-f]{20,}-\\w+',
  'ATATT3x[\\w=-]{20,}',
  'figd_[\\w-]{20,}',
  'hf_[A-Za-z0-9]{30,}',
  'gsk_\\w{30,}',
  'r8_\\w{30,}',
  'pplx-\\w{30,}',
  'PMAK-[0-9a-f]{20,}-[0-9a-f]+',
  '\\d{8,10}:[A-Za-z0-9_-]{35}',
  '[MNO][\\w-]{23,25}\\.[\\w-]{6}\\.[\\w-]{27,}',
  'eyJ[\\w-]{10,}\\.eyJ[\\w-]{10,}\\.[\\w-]*',
  '(?<=Bearer\\s)(?=[\\w.~+/-]*\\d)[\\w.~+/-]{16,}=*',
];
const tokenForm = new RegExp(`(?<![A-Za-z0-9])(?:${tokenForms.join('|')})(?![A-Za-z0-9])`, 'g');
const privateKey =
  /-----BEGIN (?:[A-Z]+ ){0,3}PRIVATE KEY-----(?:[\s\S]*?-----END (?:[A-Z]+ ){0,3}PRIVATE KEY-----|[\s\S]*)/g;

/** URLs whose path is a secret: what precedes it, and the secret. */
const secretPaths = [
  ['hooks\\.slack(?:-gov)?\\.com/(?:services|workflows|triggers)/', '(?:[\\w-]|/)+'],
  ['discord(?:app)?\\.com/api/(?:v\\d+/)?webhooks/\\d+/', '[\\w-]+'],
  ['api\\.telegram\\.org/(?:file/)?bot', '\\d+:[\\w-]+'],
  ['[\\w-]+\\.webhook\\.office\\.com/webhookb2/', '(?:[\\w@-]|/)+'],
  ['outlook\\.office(?:365)?\\.com/webhook/', '(?:[\\w@-]|/)+'],
  ['hooks\\.zapier\\.com/hooks/(?:catch|standard)/', '(?:[\\w-]|/)+'],
  ['hook(?:\\.[\\w-]+)?\\.(?:make|integromat)\\.com/', '[\\w-]+'],
  ['maker\\.ifttt\\.com/trigger/[^/\\s]+/(?:json/)?with/key/', '[\\w-]+'],
  ['open\\.(?:larksuite|feishu)\\.(?:com|cn)/open-apis/bot/v2/hook/', '[\\w-]+'],
].map(
  // In JSON a slash may be escaped.
  ([before = '', secret = '']) =>
    new RegExp(`(${before}) (${secret})`.replaceAll('/', '\\\\?/').replace(' ', ''), 'gi'),
);
const credentialsInUrl = /[a-z][\w+.-]{1,20}:\/\/[^\s/?#@:'"`]{0,100}:[^\s/?#@'"`${}]{3,200}@/i;

/** A part of a text: from `start` to `end`, which is not part of it. */
export interface TextRange {
  start: number;
  end: number;
  /** What it is called: the name of a parameter, or what it stands in. */
  label: string;
}

/** Where secrets stand that their form tells. */
export function rangesByForm(text: string): TextRange[] {
  const ranges: TextRange[] = [];
  for (const pattern of secretPaths)
    for (const { index, 1: before = '', 2: secret = '' } of text.matchAll(pattern)) {
      const start = index + before.length;
      if (secret !== '') ranges.push({ start, end: start + secret.length, label: 'path' });
    }
  for (const pattern of [privateKey, tokenForm])
    for (const { index, 0: found } of text.matchAll(pattern))
      ranges.push({ start: index, end: index + found.length, label: '' });
  return ranges;
}

/** True for code, or other text, in which a secret stands, by its form. */
export function hasSecretForm(text: string): boolean {
  return rangesByForm(text).length > 0 || credentialsInUrl.test(text);
}

const secretWord = /passw(?:or)?d|passphrase|secret(?!ary)|authorization|apikey|credential/;
const secretEnd =
  /(?:token|cookies?|jwt|signature|pwd|bearer|(?:api|access|auth|private|client|session|app|consumer|subscription|license|signing|encryption|master|functions|admin|integration)key)$/;
/** Names that say something about a secret, and tokens that are none. */
const openEnd =
  /(?:type|name|hint|policy|length|ur[il]|expiry|expires(?:in|at)?|(?:page|next|continuation|cursor|sync|max)token)$/;
const openKey =
  /^(?:idempotency|partition|sort|primary|foreign|cache|public|row|object|order|issue|project|group)key$/;
const scheme =
  /^(?:bearer|token|apikey|api-key|sso-key|bot|ssws|splunk|geniekey|oauth|sharedaccesssignature)\s+\S/i;
const basic = /^basic\s+[\w+/-]{8,}={0,2}$/i;

/** True for a name of a field whose text is a secret. */
export function isSecretName(name: string): boolean {
  const plain = plainName(name);
  return (secretWord.test(plain) || secretEnd.test(plain)) && !openEnd.test(plain);
}

export function isSecretHeader(name: string, value: string): boolean {
  const plain = plainName(name);
  return (
    isSecretName(name) ||
    (/(?:auth|key)$|token|session/.test(plain) && !openEnd.test(plain) && !openKey.test(plain)) ||
    scheme.test(value.trim()) ||
    basic.test(value.trim())
  );
}

/** A parameter of a URL. `code`: that of a function of Azure is long; others are short. */
export function isSecretParameter(name: string, value: string): boolean {
  const plain = plainName(name);
  return (
    isSecretName(name) ||
    /^(?:key|appid|sig|auth|pass)$/.test(plain) ||
    (/[-_]key$/i.test(name) && !openKey.test(plain)) ||
    (plain === 'code' && /^[\w+/=%~.-]{20,}$/.test(value))
  );
}

/** Fields of `auth` that are no secret. */
export function isOpenAuthField(name: string): boolean {
  return /^(?:type|username|user|region|service)$/i.test(name);
}

/** True for a text beside expressions that is more than the scheme of an authentication, and names of cookies. */
export function saysMore(text: string): boolean {
  const rest = text.trim().replace(/^(?:basic|bearer|token|apikey|bot)$/i, '');
  return /[A-Za-z0-9]{4}/.test(rest.replaceAll(/[\w-]+=(?=[\s;]|$)/g, ''));
}

function plainName(name: string): string {
  return name.toLowerCase().replaceAll(/[^a-z0-9]/g, '');
}
