import { setPriority } from 'node:os';
import { parentPort } from 'node:worker_threads';
import { type ParsedMail, parseMail } from './parse-mail.ts';

/** What the thread of mail-parser.ts answers for each mail; the raw mail comes back with it. */
export type MailThreadAnswer = { mail: ParsedMail; raw: ArrayBuffer } | { error: string };

// Those who wait for the service go first; with less, a mail on a busy machine would not be read in time. On Linux this is the priority of the
// thread alone.
if (process.platform === 'linux') setPriority(5);

/** One mail at a time: the other end waits for the answer before it sends the next. */
parentPort?.on('message', async (parts: ArrayBuffer[]) => {
  try {
    const raw = await new Blob(parts).arrayBuffer();
    const mail = await parseMail(raw);
    const buffers = [raw, ...mail.attachments.map(({ content }) => content)];
    for (const text of [mail.text, mail.html]) if (text?.whole) buffers.push(text.whole);
    parentPort?.postMessage({ mail, raw } satisfies MailThreadAnswer, [...new Set(buffers)]);
  } catch (error) {
    parentPort?.postMessage({ error: String(error).slice(0, 300) } satisfies MailThreadAnswer);
  }
});
