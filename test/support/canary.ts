import { glob, readFile } from 'node:fs/promises';

/** A secret of printable ASCII that reads differently in every way of writing it. */
export function canary(name: string): string {
  return `cny-"${name.replaceAll(' ', '-')}"/+=&%-Zx81-${'0123456789'.repeat(2)}`;
}

/**
 * The ways in which a text may stand somewhere: as it is, in JSON, URL-encoded, and as base64 or hexadecimal digits, also
 * in the middle of longer ones. Never empty, and long enough not to be there by chance.
 */
export function writingsOf(secret: string): string[] {
  const bytes = Buffer.from(secret, 'utf8');
  const json = JSON.stringify(secret).slice(1, -1);
  const hex = bytes.toString('hex');
  const texts = [
    ...[secret, json, JSON.stringify(json).slice(1, -1)],
    ...[
      encodeURIComponent(secret),
      encodeURI(secret),
      new URLSearchParams({ s: secret }).toString().slice(2),
    ],
    ...[hex, hex.toUpperCase()],
  ];
  for (const encoding of ['base64', 'base64url'] as const)
    for (let shift = 0; shift < 3; shift += 1) {
      const shifted = Buffer.concat([Buffer.alloc(shift), bytes])
        .toString(encoding)
        .replace(/=+$/, '');
      // Without the characters that depend on what stands before and behind it.
      texts.push(shifted.slice(shift === 0 ? 0 : 4, Math.floor(shifted.length / 4) * 4 - 4));
    }
  return [...new Set(texts)];
}

/** Which of the secrets stand in the bytes, in any writing: `name as …`. */
export function findSecrets(bytes: Buffer | string, secrets: Readonly<Record<string, string>>): string[] {
  const content = typeof bytes === 'string' ? Buffer.from(bytes, 'utf8') : bytes;
  return Object.entries(secrets).flatMap(([name, secret]) =>
    writingsOf(secret).flatMap((text) => (content.includes(text) ? [`${name} as ${text}`] : [])),
  );
}

/** Looks through every byte below a folder. Answers `file: secret`. */
export async function findSecretsInFolder(
  folder: string,
  secrets: Readonly<Record<string, string>>,
): Promise<{ found: string[]; files: number }> {
  const found: string[] = [];
  let files = 0;
  for await (const file of glob(`${folder}/**`)) {
    // A folder, or gone meanwhile.
    const bytes = await readFile(file).catch(() => undefined);
    if (bytes === undefined) continue;
    files += 1;
    found.push(...findSecrets(bytes, secrets).map((secret) => `${file}: ${secret}`));
  }
  return { found, files };
}
