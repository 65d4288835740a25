import type { Clock } from '#lib/clock.ts';
import { CallerError, UnavailableError } from '#lib/errors.ts';
import { newTimeOrderedId } from '#lib/ids.ts';
import type { Store } from '#storage/store.ts';
import { readRecipient } from '#workflows/definitions/trigger-address.ts';
import { findTriggerByKey } from '#workflows/definitions/trigger-store.ts';
import { insertPrepared, type RunPreparer } from '#workflows/runs/insert-prepared.ts';
import type { RunStarter } from '#workflows/runs/start-run.ts';
import { activeWorkflows } from '#workflows/runs/timer-trigger-store.ts';
import { type MailEnvelope, type MailFiles, mailEventJson } from './mail-event.ts';
import { type MailParser, UnreadableMailError } from './mail-parser.ts';
import type { MailText, ParsedMail } from './parse-mail.ts';

/** Texts longer than this are kept as files too. */
const textInEventMax = 32_000;

/** Keeps content for half an hour and answers its URL. Throws CallerError `files_full`. */
export interface FileKeeper {
  keep(
    file: { ownerId: string; name: string; contentType: string },
    content: Iterable<Uint8Array>,
  ): Promise<string>;
}

/** An address that accepts mail. */
export interface MailTarget {
  /** As in the envelope. */
  address: string;
  plusTag: string | null;
  /** ei_… */
  triggerId: string;
  workflowId: string;
  ownerId: string;
}

/** The SMTP reply to the sender of a refused mail. */
export class MailRefusal extends Error {
  override name = 'MailRefusal';
  readonly responseCode: number;

  constructor(responseCode: number, message: string, options?: ErrorOptions) {
    super(message, options);
    this.responseCode = responseCode;
  }
}

/** Turns mails into runs. Promise 1: a mail that was accepted is on disk. */
export class MailAcceptor {
  readonly #store: Store;
  readonly #runs: RunPreparer & Pick<RunStarter, 'hasRoom'>;
  readonly #files: FileKeeper;
  readonly #parser: MailParser;
  readonly #clock: Clock;
  readonly #domain: () => string;
  readonly #mayRun: (ownerId: string) => boolean | Promise<boolean>;

  constructor(options: {
    store: Store;
    runs: RunPreparer & Pick<RunStarter, 'hasRoom'>;
    files: FileKeeper;
    parser: MailParser;
    clock: Clock;
    /** The domain of the addresses, in lower case. */
    domain: () => string;
    /** True when an owner has quota for one more run. */
    mayRun: (ownerId: string) => boolean | Promise<boolean>;
  }) {
    this.#store = options.store;
    this.#runs = options.runs;
    this.#files = options.files;
    this.#parser = options.parser;
    this.#clock = options.clock;
    this.#domain = options.domain;
    this.#mayRun = options.mayRun;
  }

  /** Finds the workflow of an address. Throws `MailRefusal`: unknown, inactive, or over quota. */
  async findTarget(address: string): Promise<MailTarget> {
    const recipient = readRecipient(this.#domain(), address);
    const unknown = () => new MailRefusal(550, 'No such address');
    if (recipient === undefined) throw unknown();
    const { read } = this.#store;
    const trigger = await orUnavailable(findTriggerByKey(read, recipient.key));
    if (trigger === undefined || trigger.kind !== 'email') throw unknown();
    const [workflow] = await orUnavailable(activeWorkflows(read, [trigger.workflow_id]));
    if (workflow === undefined) throw unknown();
    if (!(await this.#mayRun(workflow.owner_id)))
      throw new MailRefusal(452, 'The quota of this address is used up for today');
    return {
      address,
      plusTag: recipient.plusTag,
      triggerId: trigger.id,
      workflowId: workflow.id,
      ownerId: workflow.owner_id,
    };
  }

  /**
   * Resolves when a run for each workflow among the targets is on disk: all of them, or none when it throws `MailRefusal`.
   * @param parts of the raw mail, given away
   */
  async accept(
    parts: readonly ArrayBuffer[],
    targets: readonly MailTarget[],
    from: Pick<MailEnvelope, 'sender' | 'clientIp' | 'helo' | 'secure'>,
  ): Promise<void> {
    const nowMs = this.#clock.now();
    const parsed = await this.#parse(parts);
    const size = parsed.raw.byteLength;
    const events: { target: MailTarget; event: string }[] = [];
    for (const [ownerId, ofOwner] of Map.groupBy(targets, (target) => target.ownerId)) {
      const files = await orUnavailable(this.#keepFiles(ownerId, parsed.mail, parsed.raw));
      for (const [, [target, ...others]] of Map.groupBy(ofOwner, (each) => each.workflowId)) {
        if (target === undefined) continue;
        const event = mailEventJson(parsed.mail, files, {
          ...from,
          id: newTimeOrderedId(nowMs),
          receivedAtMs: nowMs,
          recipients: [target, ...others].map(({ address }) => address),
          plusTag: target.plusTag,
          size,
        });
        events.push({ target, event });
      }
    }
    await this.#startRuns(events);
  }

  async #parse(parts: readonly ArrayBuffer[]): Promise<{ mail: ParsedMail; raw: ArrayBuffer }> {
    try {
      return await orUnavailable(this.#parser.parse(parts));
    } catch (cause) {
      if (cause instanceof UnreadableMailError)
        throw new MailRefusal(554, `The mail cannot be read: ${cause.message}`, { cause });
      throw cause;
    }
  }

  async #keepFiles(ownerId: string, mail: ParsedMail, raw: ArrayBuffer): Promise<MailFiles> {
    const keep = (name: string, contentType: string, content: ArrayBuffer) =>
      this.#files.keep({ ownerId, name, contentType }, [new Uint8Array(content)]);
    const keepText = async (text: MailText | null, name: string, contentType: string) => {
      if (text === null || text.head.length <= textInEventMax) return null;
      return keep(name, contentType, text.whole ?? new TextEncoder().encode(text.head).buffer);
    };
    const rawUrl = await keep('mail.eml', 'message/rfc822', raw);
    const textUrl = await keepText(mail.text, 'body.txt', 'text/plain; charset=utf-8');
    const htmlUrl = await keepText(mail.html, 'body.html', 'text/html; charset=utf-8');
    const attachmentUrls: string[] = [];
    for (const { filename, contentType, charset, content } of mail.attachments) {
      const parameters = charset === null ? '' : `; charset=${charset}`;
      attachmentUrls.push(await keep(filename, `${contentType}${parameters}`, content));
    }
    return { rawUrl, textUrl, htmlUrl, attachmentUrls };
  }

  /** In one transaction: a sender that is asked to try again must not have started half of them. */
  async #startRuns(events: readonly { target: MailTarget; event: string }[]): Promise<void> {
    for (const { target, event } of events) {
      if (!(await orUnavailable(this.#runs.hasRoom(target, event.length))))
        throw new MailRefusal(452, 'Too many mails wait for this address already; try again later');
    }
    const prepared = await orUnavailable(
      this.#store.transaction(async (tx) => {
        const ids = events.map(({ target }) => target.workflowId);
        const workflows = new Map((await activeWorkflows(tx, ids)).map((row) => [row.id, row]));
        const rows = events.flatMap(({ target, event }) => {
          const workflow = workflows.get(target.workflowId);
          // It was there when the sender asked; those that still are get their mail.
          if (workflow === undefined) return [];
          return this.#runs.prepare({
            workflowId: workflow.id,
            ownerId: workflow.owner_id,
            deploymentId: workflow.deployment_id,
            flowControl: workflow.flow_control,
            emitterId: target.triggerId,
            sourceType: 'EMAIL',
            event,
            hops: 0,
          });
        });
        await insertPrepared(this.#store, tx, rows);
        return rows;
      }),
    );
    for (const { stored } of prepared) stored();
    if (prepared.length === 0) throw new MailRefusal(550, 'No such address');
  }
}

/** Turns our own failures into a refusal that asks the sender to try again later. */
async function orUnavailable<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (cause) {
    if (cause instanceof UnavailableError)
      throw new MailRefusal(451, 'The service cannot store the mail now; try again later', { cause });
    if (cause instanceof CallerError && cause.code === 'files_full')
      throw new MailRefusal(452, 'There is no room for more files of this address', { cause });
    throw cause;
  }
}
