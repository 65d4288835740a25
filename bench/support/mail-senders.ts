import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { setPriority } from 'node:os';
import { fileURLToPath, pathToFileURL } from 'node:url';
import nodemailer from 'nodemailer';

interface MailLoad {
  port: number;
  to: string;
  senders: number;
  /** Size of the HTML text of each mail. */
  bytes: number;
}

/** Senders of large mails in a process of their own, of the lowest priority; each sends the next one when it was answered. */
export class MailSenders {
  readonly #child: ChildProcess;

  constructor(load: MailLoad) {
    this.#child = fork(fileURLToPath(import.meta.url), [JSON.stringify(load)], { detached: true });
  }

  /** Ends them; answers by code of the reply. */
  async stop(): Promise<Record<string, number>> {
    this.#child.send('stop');
    const [replies] = (await once(this.#child, 'message')) as [Record<string, number>];
    this.#child.kill('SIGKILL');
    return replies;
  }
}

function sendMails({ port, to, senders, bytes }: MailLoad): void {
  setPriority(19);
  const replies: Record<string, number> = {};
  const html = `<p>${'y'.repeat(70)}</p>\r\n`.repeat(Math.ceil(bytes / 79));
  const keepSending = async (): Promise<never> => {
    for (;;) {
      const transport = nodemailer.createTransport({ host: '127.0.0.1', port, ignoreTLS: true });
      const reply = await transport
        .sendMail({ from: 'a@sender.example', to, subject: 'large', html, textEncoding: 'base64' })
        .then(
          ({ response }) => response,
          (error) => String((error as { response?: string }).response ?? error),
        );
      transport.close();
      replies[reply.slice(0, 60)] = (replies[reply.slice(0, 60)] ?? 0) + 1;
    }
  };
  process.on('message', () => process.send?.(replies));
  process.on('disconnect', () => process.exit(0));
  for (let n = 0; n < senders; n += 1) void keepSending();
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href)
  sendMails(JSON.parse(process.argv[2] ?? '{}') as MailLoad);
